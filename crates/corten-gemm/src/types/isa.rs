//! Instruction sets, and which of them the processor and the system support.

#[cfg(target_arch = "x86_64")]
use std::arch::asm;
#[cfg(target_arch = "x86_64")]
use std::sync::OnceLock;

/// The instruction set of a product. Each one includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// The baseline of the architecture.
    Portable,
    /// AVX2, FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
    /// AVX-512 VNNI: dot products of int8.
    Avx512Vnni,
    /// AVX-512 BF16: dot products of [`Bf16`](crate::Bf16).
    Avx512Bf16,
    /// AMX: products of [`Bf16`](crate::Bf16) in tile registers; see [`has_amx`].
    Amx,
}

/// Whether the processor has AMX-BF16 and the system saves tile registers.
///
/// The permission is requested once, on first use, so that programs which never multiply have no such
/// state to be saved.
#[cfg(target_arch = "x86_64")]
#[must_use]
pub fn has_amx() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        is_x86_feature_detected!("avx512bf16") && cpuid_has_amx() && os_enables_amx()
    })
}

/// Whether CPUID reports AMX-TILE and AMX-BF16.
#[cfg(target_arch = "x86_64")]
fn cpuid_has_amx() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    const TILES_AND_BF16: u32 = 1 << 24 | 1 << 22;
    __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & TILES_AND_BF16 == TILES_AND_BF16
}

/// Requests permission to use tile registers from Linux, which saves them only for programs that ask.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn os_enables_amx() -> bool {
    const ARCH_PRCTL: isize = 158;
    const REQUEST_PERMISSION: usize = 0x1023;
    const TILE_DATA: usize = 18;
    let mut result = ARCH_PRCTL;
    // SAFETY: the call reads and writes no memory of the program; it clobbers two registers.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") result,
            in("rdi") REQUEST_PERMISSION,
            in("rsi") TILE_DATA,
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result == 0
}

#[cfg(all(target_arch = "x86_64", not(target_os = "linux")))]
fn os_enables_amx() -> bool {
    false
}
