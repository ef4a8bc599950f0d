/* For libraries of operators, which programs load with `corten_load_library`, `corten_c::load_library` of Rust or
 * `torch.ops.load_library` of Python. Such a library is linked to nothing of Corten: it gets the functions of
 * `corten.h` as a table, through which this header calls them.
 *
 * Written by `cargo xtask header` from crates/corten-c: changes belong there.
 *
 *     #include "corten_library.h"
 *
 *     CORTEN_LIBRARY_INIT(api) {
 *         CortenLibrary *library;
 *         CortenStatus status = corten_use_api(api);
 *         if (status == CORTEN_OK) status = corten_library_new("mine", &library);
 *         ...
 *         return status;
 *     }
 *
 * Of a library of several files one includes it as above; the others define CORTEN_LIBRARY_EXTERN before, and the
 * first defines CORTEN_LIBRARY_SHARED.
 */

#ifndef CORTEN_LIBRARY_H
#define CORTEN_LIBRARY_H

#include "corten.h"

struct CortenApi {
    size_t size;
    uint32_t version;
