/*
 * aggregator/core/model/files.h - the files in <store>/artifacts that sessions list: their sizes,
 * and which of them no session lists any more. A file that several sessions list is stored once.
 */
#ifndef MRD_AGGREGATOR_CORE_MODEL_FILES_H
#define MRD_AGGREGATOR_CORE_MODEL_FILES_H

#include "base/map.h"

typedef struct {
    mrd_map_key key; /* the first 192 bits of its hash */
    uint64_t bytes;  /* number of its bytes that are stored */
    uint32_t listed; /* number of sessions with a directory that list it */
    uint32_t live;   /* number of sessions in `listed` that are not deleted */
} mrd_stored_file;

typedef struct {
    mrd_stored_file *v;
    size_t n;
    mrd_map at;
    uint64_t bytes; /* bytes of all files with live > 0 */
} mrd_stored_files;

void mrd_stored_files_fini(mrd_stored_files *files);
/* true for the lower-case hexadecimal digits of a SHA-256 */
bool mrd_hash_is_valid(const char *hex);
/* Returns NULL if the name is a relative path of plain components below a session's directory.
 * Otherwise returns the fault, which follows "the name" in a message. */
const char *mrd_artifact_name_fault(const char *name);
bool mrd_stored_files_has(const mrd_stored_files *files, const char *sha256);
/* Notes that one more session lists the file. Errors: NOMEM. */
mrd_err mrd_stored_files_list(mrd_stored_files *files, const char *sha256);
/* Notes that `bytes` of the file are stored now. */
void mrd_stored_files_grown(mrd_stored_files *files, const char *sha256, uint64_t bytes);
/* A session that lists the file was deleted. Its directory still exists. */
void mrd_stored_files_retire(mrd_stored_files *files, const char *sha256);
/* The directory of a deleted session that listed the file was removed. */
void mrd_stored_files_unlist(mrd_stored_files *files, const char *sha256);

#endif
