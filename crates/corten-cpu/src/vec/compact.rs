//! Loops of the baseline of x86-64, which are to be small: that level is for processors that are seldom
//! met, see Note [Instances].

/// Keeps the loop around it from being unrolled or made of vectors, on x86-64.
#[inline(always)]
pub(crate) fn one_at_a_time() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: there is no instruction.
    unsafe {
        std::arch::asm!("", options(nomem, nostack, preserves_flags));
    }
}
