/* A library that cannot register its operator: its schema does not parse. */

#include "abi.h"

__attribute__((constructor)) static void register_operators(void)
{
    LibraryHandle library = NULL;
    aoti_torch_library_init_def("stable_broken", __FILE__, __LINE__, &library);
    /* As the headers of PyTorch do, which throw. Nothing could catch that here. */
    if (aoti_torch_library_def(library, "this is no schema") != 0)
        __builtin_trap();
}
