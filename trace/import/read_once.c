/* trace/import/read_once.c - recognises a file or directory that is given twice, or found again
 * through a link, so that it is read only once. */
#include <stdlib.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "trace/import/same_data.h"

/* Returns a hash of the identity (instance, process and so on) with which a file is read. Two
 * processes may share a file through links in their directories. The file is then read once for
 * each of them. */
static uint64_t
identity_hash(const mrd_identity *id)
{
    const int64_t all[] = { id->instance_id, id->process_id, id->nc_idx, id->model,
                            id->session,     id->rank,       id->job };

    return mrd_hash64(all, sizeof(all), 0);
}

mrd_err
mrd_read_once_check(mrd_read_once *once, const char *path, const mrd_identity *identity,
                    bool *ret_again)
{
    struct stat st;
    mrd_map_key key;
    bool again;

    *ret_again = false;
    if (once == NULL || stat(path, &st) != 0 || !(S_ISREG(st.st_mode) || S_ISDIR(st.st_mode)))
        return MRD_OK;
    key = (mrd_map_key){ (uint64_t) st.st_dev, (uint64_t) st.st_ino, identity_hash(identity) };
    again = mrd_map_get(&once->seen, key) != MRD_MAP_NONE;
    if (!again)
        return mrd_map_put(&once->seen, key, 1);
    if (once->again++ == 0)
        mrd_buf_text(&once->first, path);
    *ret_again = true;
    return once->first.err;
}

mrd_err
mrd_read_once_end(mrd_read_once *once, mrd_catalog *cat, mrd_store *store)
{
    mrd_err err = mrd_same_data_resolve(once, cat, store);

    if (once->again == 1)
        mrd_catalog_note(cat, "read once: %s was given twice or is met again through a link",
                         mrd_buf_cstr(&once->first));
    else if (once->again > 1)
        mrd_catalog_note(cat,
                         "read once: %zu files or folders that were given twice or are met again "
                         "through a link (first: %s)",
                         once->again, mrd_buf_cstr(&once->first));
    mrd_map_fini(&once->seen);
    mrd_buf_fini(&once->first);
    for (size_t i = 0; i < once->n_inputs; i++)
        mrd_sample_fini(&once->inputs[i].sample);
    free(once->inputs);
    return err;
}
