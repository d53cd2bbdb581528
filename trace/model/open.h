/*
 * trace/model/open.h - open spans: deep copies of their starts, and the merging of the arguments of
 * start and end. Threads: belongs to one thread.
 */
#ifndef MRD_TRACE_OPEN_H
#define MRD_TRACE_OPEN_H

#include "base/map.h"
#include "trace/model/event.h"

typedef struct mrd_open mrd_open;
struct mrd_open {
    mrd_open *below; /* for the owner: a stack, or a list */
    uint64_t mark;   /* for the owner: order of arrival */
    uint32_t told;
    size_t bytes; /* of the whole allocation */
    mrd_event ev; /* args, their text and flows belong to the mrd_open */
};

mrd_open *mrd_open_new(const mrd_event *ev); /* NULL if out of memory */
void mrd_open_free(mrd_open *open);

/*
 * Open spans by key. Spans of one key are in order of arrival, and all spans are ordered by age. If
 * a table has a limit, remove the oldest when it is reached. A zeroed table is empty.
 */
#define MRD_OPEN_NONE UINT32_MAX

typedef struct {
    mrd_open *open; /* NULL if the slot is free */
    mrd_map_key key;
    uint32_t older, newer; /* by age; free slots are linked by `newer` */
    /* Slots of this key, in order of arrival. before_same of the first is the last. */
    uint32_t before_same, next_same;
} mrd_open_slot;

typedef struct {
    mrd_open_slot *slots;
    size_t n, cap, used;
    size_t bytes;                  /* of all open spans */
    uint32_t oldest, newest, free; /* valid while n > 0 */
    mrd_map first;                 /* key -> its first slot */
} mrd_open_table;

void mrd_open_table_fini(mrd_open_table *table); /* frees the remaining open spans */
/* Owns `open` on success. Errors: NOMEM. */
mrd_err mrd_open_put(mrd_open_table *table, mrd_map_key key, mrd_open *open);
/* Returns the first slot of the key, and the next one; MRD_OPEN_NONE at the end. */
uint32_t mrd_open_first(const mrd_open_table *table, mrd_map_key key);
uint32_t mrd_open_next(const mrd_open_table *table, uint32_t slot);
uint32_t mrd_open_oldest(const mrd_open_table *table);             /* MRD_OPEN_NONE if empty */
mrd_open *mrd_open_at(const mrd_open_table *table, uint32_t slot); /* borrowed */
/* removes it from the table; the caller frees it */
mrd_open *mrd_open_take(mrd_open_table *table, uint32_t slot);

/* Merges argument lists, and reuses its memory for each event. A zeroed one with `strings` set is
 * ready. */
typedef struct {
    mrd_strtab *strings;
    mrd_arg *v;
    size_t cap;
    mrd_map end_keys; /* key -> "end.<key>" */
} mrd_joiner;

void mrd_joiner_fini(mrd_joiner *joiner);
/*
 * Returns the arguments of the start, then the arguments of the end. An end argument with the same
 * key and value as in the start is left out. With another value its key becomes "end.<key>". The
 * result borrows from both and from the joiner. Errors: NOMEM.
 */
mrd_err mrd_join(mrd_joiner *joiner, const mrd_event *start, const mrd_arg *end, size_t n_end,
                 const mrd_arg **ret_args, uint32_t *ret_n);

#endif
