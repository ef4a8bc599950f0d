//! Moving fresh memory to the NUMA node of the allocating thread.

use super::cpu::{NUMA, set_mode};

const PAGE: usize = 4096;
const MPOL_PREFERRED: libc::c_int = 1;
const MPOL_MF_MOVE: libc::c_uint = 1 << 1;

/// Turns the moving on or off; off at first.
pub fn set_numa_enabled(enabled: bool) {
    set_mode(NUMA, enabled);
}

/// Asks the system to keep the whole pages of a block on the node that this thread runs on. A
/// refusal is no error: the memory is only slower.
pub(super) fn move_to_current_node(block: *mut u8, nbytes: usize) {
    let (mut cpu, mut node) = (0_u32, 0_u32);
    let lead = block.align_offset(PAGE);
    if nbytes < lead + PAGE {
        return;
    }
    let length = (nbytes - lead) / PAGE * PAGE;
    // SAFETY: `getcpu` writes two numbers; `mbind` changes only where the pages lie.
    unsafe {
        let (cpu, node_ptr) = (&raw mut cpu, &raw mut node);
        if libc::syscall(libc::SYS_getcpu, cpu, node_ptr, std::ptr::null_mut::<u8>()) != 0 {
            return;
        }
        let mask = 1_u64 << (node % 64);
        let start = block.add(lead);
        let bits: libc::c_ulong = 65;
        libc::syscall(
            libc::SYS_mbind,
            start,
            length,
            MPOL_PREFERRED,
            &raw const mask,
            bits,
            MPOL_MF_MOVE,
        );
    }
}
