"""Language models of GGUF files on the operators of the namespace ``corten``: the command ``corten generate``.

The crate ``corten-lm`` has more: caches in pages and in int8, folders of Hugging Face, several sequences. It is not in
the extension module, where it would take more room than these files.
"""
