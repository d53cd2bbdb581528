/*
 * trace/model/open.h - spans that have begun but not ended. Keeps deep copies of their starts, and
 * merges the arguments of start and end. Threads: belongs to one thread.
 */
#ifndef MRD_TRACE_OPEN_H
#define MRD_TRACE_OPEN_H

#include "base/map.h"
#include "trace/model/event.h"

typedef struct mrd_open mrd_open;
struct mrd_open {
    mrd_open *below; /* link for the owner's stack or list */
    uint64_t mark;   /* a number for the owner's use, such as the order of arrival */
    uint32_t told;
    size_t bytes; /* size of the whole allocation */
    mrd_event ev; /* args, their text and flows belong to the mrd_open */
};

mrd_open *mrd_open_new(const mrd_event *ev); /* returns NULL if out of memory */
void mrd_open_free(mrd_open *open);

/*
 * A table of open spans by key. Spans of one key are in order of arrival, and all spans are in
 * order of age. An owner with a limit removes the oldest span when the limit is reached. A zeroed
 * table is empty.
 */
#define MRD_OPEN_NONE UINT32_MAX

typedef struct {
    mrd_open *open; /* NULL if the slot is free */
    mrd_map_key key;
    uint32_t older, newer; /* neighbours in the order of age; free slots are linked by `newer` */
    /* Neighbours with the same key, in order of arrival. before_same of the first slot is the last
     * slot. */
    uint32_t before_same, next_same;
} mrd_open_slot;

typedef struct {
    mrd_open_slot *slots;
    size_t n, cap, used;
    size_t bytes;                  /* total size of all open spans */
    uint32_t oldest, newest, free; /* slot numbers; valid while n > 0 */
    mrd_map first;                 /* key -> its first slot */
} mrd_open_table;

void mrd_open_table_fini(mrd_open_table *table); /* frees the remaining open spans */
/* Adds an open span. Owns `open` on success. Errors: NOMEM. */
mrd_err mrd_open_put(mrd_open_table *table, mrd_map_key key, mrd_open *open);
/* These functions return the first slot of a key, and the next slot with the same key. They return
 * MRD_OPEN_NONE if there is none. */
uint32_t mrd_open_first(const mrd_open_table *table, mrd_map_key key);
uint32_t mrd_open_next(const mrd_open_table *table, uint32_t slot);
uint32_t mrd_open_oldest(const mrd_open_table *table);             /* MRD_OPEN_NONE if empty */
mrd_open *mrd_open_at(const mrd_open_table *table, uint32_t slot); /* the result is borrowed */
/* Removes the span from the table. The caller frees it. */
mrd_open *mrd_open_take(mrd_open_table *table, uint32_t slot);

/* Joins the arguments of start and end. It reuses its memory for each event. To initialise it, zero
 * it and set `strings`. */
typedef struct {
    mrd_strtab *strings;
    mrd_arg *v;
    size_t cap;
    mrd_map end_keys; /* maps the key of an argument to "end.<key>" */
} mrd_joiner;

void mrd_joiner_fini(mrd_joiner *joiner);
/*
 * Returns the arguments of the start, then those of the end. If both have an argument with the same
 * key and value, it is returned once. If the values differ, the key at the end becomes "end.<key>".
 * The result borrows from start, end and joiner. Errors: NOMEM.
 */
mrd_err mrd_join(mrd_joiner *joiner, const mrd_event *start, const mrd_arg *end, size_t n_end,
                 const mrd_arg **ret_args, uint32_t *ret_n);

#endif
