
#if defined(CORTEN_LIBRARY_EXTERN)
extern const struct CortenApi *corten_api;
#elif defined(CORTEN_LIBRARY_SHARED)
const struct CortenApi *corten_api;
#else
static const struct CortenApi *corten_api;
#endif

/* Uses a table: an error where the program is older than this header, or of another version. */
static inline CortenStatus corten_use_api(const struct CortenApi *api) {
    if (api->version != CORTEN_ABI_VERSION || api->size < sizeof(struct CortenApi)) {
        return api->corten_set_error(CORTEN_RUNTIME_ERROR,
                                     "the library was built for another version of Corten's C interface");
    }
    corten_api = api;
    return CORTEN_OK;
}

#ifdef __cplusplus
#define CORTEN_LIBRARY_INIT(api) extern "C" CortenStatus corten_library_init(const struct CortenApi *api)
#else
#define CORTEN_LIBRARY_INIT(api) CortenStatus corten_library_init(const struct CortenApi *api)
#endif

