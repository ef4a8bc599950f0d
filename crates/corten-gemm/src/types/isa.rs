//! Instruction sets, and which of them the processor and the system support.

#[cfg(target_arch = "x86_64")]
use std::arch::asm;
#[cfg(target_arch = "x86_64")]
use std::sync::OnceLock;

/// Which instructions a product may use; more of them include the fewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isa {
    /// What every processor of the architecture has.
    Portable,
    /// AVX2, FMA and F16C.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
    /// AVX-512 VNNI: dot products of bytes.
    Avx512Vnni,
    /// AVX-512 BF16: dot products of [`Bf16`](crate::Bf16).
    Avx512Bf16,
    /// AMX: products of tiles of [`Bf16`](crate::Bf16); see [`has_amx`](crate::has_amx).
    Amx,
}

/// Whether the processor multiplies 16-bit floats in tile registers, and the system saves these.
///
/// The system is asked for it once: a program that does not multiply has no such state.
#[cfg(target_arch = "x86_64")]
#[must_use]
pub fn has_amx() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| {
        is_x86_feature_detected!("avx512bf16") && cpuid_has_amx() && os_enables_amx()
    })
}

/// CPUID's word of AMX: tile registers, and products of 16-bit floats in them.
#[cfg(target_arch = "x86_64")]
fn cpuid_has_amx() -> bool {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    const TILES_AND_BF16: u32 = 1 << 24 | 1 << 22;
    __cpuid(0).eax >= 7 && __cpuid_count(7, 0).edx & TILES_AND_BF16 == TILES_AND_BF16
}

/// Asks Linux for the state of tile registers, which it saves only for programs that ask.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn os_enables_amx() -> bool {
    const ARCH_PRCTL: isize = 158;
    const REQUEST_PERMISSION: usize = 0x1023;
    const TILE_DATA: usize = 18;
    let mut result = ARCH_PRCTL;
    // SAFETY: the call reads no memory of the program and changes none; it clobbers two registers.
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
