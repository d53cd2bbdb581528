/*
 * aggregator/core/model/files.h - the table of files in <store>/artifacts: their sizes, and the
 * number of sessions that list each file. A file that several sessions list is stored once.
 */
#ifndef MRD_AGGREGATOR_CORE_MODEL_FILES_H
#define MRD_AGGREGATOR_CORE_MODEL_FILES_H

#include "base/map.h"

typedef struct {
    mrd_map_key key; /* the first 192 bits of the file's SHA-256 */
    uint64_t bytes;  /* number of stored bytes of the file */
    /* number of sessions that list the file, including deleted ones until their directory is
     * removed */
    uint32_t listed;
    uint32_t live; /* number of sessions that list the file and are not deleted */
} mrd_stored_file;

typedef struct {
    mrd_stored_file *v;
    size_t n;
    mrd_map at;
    uint64_t bytes; /* total bytes of all files that a session lists (live > 0) */
} mrd_stored_files;

void mrd_stored_files_fini(mrd_stored_files *files);
/* Returns true if `hex` is a SHA-256 in lower-case hexadecimal digits. */
bool mrd_hash_is_valid(const char *hex);
/* Checks the name of an artifact. Returns NULL if it is a relative path of plain components.
 * Otherwise returns what is wrong, as a text that follows "the name" in a message. */
const char *mrd_artifact_name_fault(const char *name);
bool mrd_stored_files_has(const mrd_stored_files *files, const char *sha256);
/* Notes that one more session lists the file. Errors: NOMEM. */
mrd_err mrd_stored_files_list(mrd_stored_files *files, const char *sha256);
/* Sets the number of stored bytes of the file. Does nothing if no session lists it. */
void mrd_stored_files_grown(mrd_stored_files *files, const char *sha256, uint64_t bytes);
/* Handles that a session that lists the file was deleted. The session's directory still exists. */
void mrd_stored_files_retire(mrd_stored_files *files, const char *sha256);
/* Handles that the directory of a deleted session, which lists the file, was removed. */
void mrd_stored_files_unlist(mrd_stored_files *files, const char *sha256);

#endif
