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

/// A count that the compiler does not know, on x86-64: the loop over it is not unrolled.
#[inline(always)]
pub(crate) fn opaque(count: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        let mut count = count;
        // SAFETY: there is no instruction, and the register keeps what it holds.
        unsafe {
            std::arch::asm!("/* {0} */", inout(reg) count, options(pure, nomem, nostack, preserves_flags));
        }
        count
    }
    #[cfg(not(target_arch = "x86_64"))]
    count
}
