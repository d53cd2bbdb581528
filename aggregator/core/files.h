/*
 * aggregator/core/files.h - the files in <store>/artifacts that sessions list, each once however
 * many list it: how large they are, and which of them nobody lists any more.
 */
#ifndef MRD_AGGREGATOR_CORE_FILES_H
#define MRD_AGGREGATOR_CORE_FILES_H

#include "base/map.h"

typedef struct {
    mrd_map_key key; /* the first 192 bits of its hash */
    uint64_t bytes;  /* that are there */
    uint32_t listed; /* how often, by sessions whose folder is there */
    uint32_t live;   /* ... that are not deleted */
} mrd_stored_file;

typedef struct {
    mrd_stored_file *v;
    size_t n;
    mrd_map at;
    uint64_t bytes; /* of the live ones */
} mrd_stored_files;

void mrd_stored_files_fini(mrd_stored_files *t);
bool mrd_hash_is_valid(const char *hex); /* a SHA-256 in lower case */
/* NULL: a relative path of plain components, below a session's folder; else what it is not, behind "the
 * name". */
const char *mrd_artifact_name_fault(const char *name);
bool mrd_stored_files_has(const mrd_stored_files *t, const char *sha256);
/* A session lists the file once more. Errors: NOMEM. */
mrd_err mrd_stored_files_list(mrd_stored_files *t, const char *sha256);
void mrd_stored_files_grown(mrd_stored_files *t, const char *sha256,
                            uint64_t bytes); /* so much is there now */
/* The session that lists it is deleted; its folder is still there. */
void mrd_stored_files_retire(mrd_stored_files *t, const char *sha256);
/* ... and now its folder is not. */
void mrd_stored_files_unlist(mrd_stored_files *t, const char *sha256);

#endif
