//! NCCL's library, where one is named: the package is too large for every test run.

use corten_dist::nccl;

#[test]
fn a_library_has_what_collectives_call() {
    if corten_core::config::var("CORTEN_NCCL_LIBRARY").is_none() {
        println!("nccl: not run: CORTEN_NCCL_LIBRARY does not name a libnccl.so.2");
        return;
    }
    let found = nccl::find(&[]).unwrap();
    assert!(found.version >= (2, 18, 0), "{found:?}");
    assert!(found.missing.is_empty(), "{found:?}");
}
