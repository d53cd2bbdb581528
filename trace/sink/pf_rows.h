/*
 * trace/sink/pf_rows.h - the tree of rows that a Perfetto trace shows: one root, the primary groups, the
 * secondary groups, the tracks. Order is explicit by rank everywhere.
 *
 * A secondary group with one track of spans is that track's row; with several it is a folder of
 * them. Counters hang on the row of their group, on the primary group when they belong to no
 * secondary one. Primary groups are ordered by the rank of their processes, then as the
 * source asks, then as trace/sink/group.h orders them. Rows of one parent that would have one name say
 * what tells them apart: viewers show rows of one name as one.
 */
#ifndef MRD_TRACE_PF_ROWS_H
#define MRD_TRACE_PF_ROWS_H

#include "trace/sink/group.h"

typedef enum { MRD_ROW_ROOT, MRD_ROW_PRIMARY, MRD_ROW_SECONDARY, MRD_ROW_TRACK } mrd_pf_row_kind;

typedef struct {
    mrd_pf_row_kind kind;
    bool labelled;      /* TRACK: is its secondary group, whose label goes in front */
    uint32_t parent;    /* index; the root's own for the root */
    uint32_t index;     /* among its siblings */
    uint32_t children;  /* how many */
    uint32_t apart;     /* what tells it from siblings of its name; private */
    uint32_t twin;      /* which of them it is, where nothing does; from 1, 0: none */
    mrd_track_id track; /* TRACK: it; groups: one of the group */
    uint32_t uuid;      /* 0 until the sink has written it */
} mrd_row;

typedef struct {
    const mrd_catalog *catalog;
    const mrd_group *primary, *secondary;
    uint32_t profile;
    mrd_row *v; /* the root first */
    size_t n, cap;
    uint32_t *of_track; /* by mrd_track_id; UINT32_MAX: of another profile */
    size_t tracks;
} mrd_pf_rows;

/* Errors: NOMEM. fini is fine on a zeroed one. */
mrd_err mrd_pf_rows_init(mrd_pf_rows *rows, const mrd_catalog *cat, uint32_t profile,
                         const mrd_sink_options *options);
void mrd_pf_rows_fini(mrd_pf_rows *rows);

/* Ranks of a row are this far apart, so that lanes fit between. */
int32_t mrd_pf_rows_stride(const mrd_pf_rows *rows, const mrd_row *row);
void mrd_pf_rows_name(const mrd_pf_rows *rows, const mrd_row *row, mrd_buf *to);
/* Identity of a process in words. */
void mrd_pf_rows_describe_process(const mrd_catalog *cat, const mrd_process *p, mrd_buf *to);
/* Identity in words; leaves `to` empty when there is nothing to say. */
void mrd_pf_rows_describe(const mrd_pf_rows *rows, const mrd_row *row, mrd_buf *to);

#endif
