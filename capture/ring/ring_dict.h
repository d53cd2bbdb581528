/*
 * capture/ring/ring_dict.h - the reader's copy of a ring's dictionary. Internal to the reader.
 *
 * The caller copies new dictionary bytes into `bytes`, after the first `used` bytes, and then calls
 * mrd_ring_dict_take, which validates them. Memory: the dictionary's declared length (at most
 * MRD_RING_DICT_MAX) and indexes by id (at most MRD_RING_NAMES_MAX entries).
 */
#ifndef MRD_CAPTURE_RING_RING_DICT_H
#define MRD_CAPTURE_RING_RING_DICT_H

#include "capture/ring/ring_types.h"

typedef struct {
    uint64_t pos;
    int32_t tid;
    mrd_str name;
} mrd_ring_thread;

typedef struct {
    uint8_t *bytes;
    /* `len` is the length that the ring's header declares; `used` is the number of bytes already
     * validated */
    uint32_t len, used;
    mrd_str *text; /* texts, indexed by id */
    uint32_t text_cap;
    mrd_ring_track_info *track; /* tracks, indexed by id; def.kind is 0 if an id has no track */
    uint32_t track_cap;
    mrd_ring_thread *thread; /* threads, in order of their first record */
    uint32_t thread_count, thread_cap;
} mrd_ring_dict_copy;

mrd_err mrd_ring_dict_init(mrd_ring_dict_copy *dict, uint32_t len);
void mrd_ring_dict_fini(mrd_ring_dict_copy *dict);
/* Validates and adds the entries in the bytes [used, head), which the caller has copied to
 * dict->bytes + used. Errors: CORRUPT, NOMEM. */
mrd_err mrd_ring_dict_take(mrd_ring_dict_copy *dict, uint32_t head, mrd_why *why);

#endif
