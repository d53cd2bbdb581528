/*
 * trace/sink/perfetto/pf_rows.h - makes the tree of rows that a Perfetto trace shows: one root,
 * the primary groups, their secondary groups, and the tracks. Explicit ranks set the order.
 *
 * A secondary group with one track of spans is that track's row. With several tracks it is a folder
 * of them. Counters belong to the row of their group, or of the primary group if they have no
 * secondary one. Primary groups are sorted by the rank of their processes, then by the source's
 * order, then by trace/sink/group.h. Rows of one parent with equal names get a distinguishing text,
 * because viewers merge rows of one name.
 */
#ifndef MRD_TRACE_PF_ROWS_H
#define MRD_TRACE_PF_ROWS_H

#include "trace/sink/group.h"

typedef enum { MRD_ROW_ROOT, MRD_ROW_PRIMARY, MRD_ROW_SECONDARY, MRD_ROW_TRACK } mrd_pf_row_kind;

typedef struct {
    mrd_pf_row_kind kind;
    /* This row of a track is the only row of its secondary group, so its name begins with the
     * group's label. */
    bool labelled;
    uint32_t parent;   /* index of the parent row; the root is its own parent */
    uint32_t index;    /* position among the children of its parent */
    uint32_t children; /* number of children */
    /* properties that are appended to the name because a sibling has the same name; bits of an enum
     * in pf_rows.c */
    uint32_t apart;
    /* number appended to the name, from 1, because a sibling has equal name and properties; 0 means
     * none */
    uint32_t twin;
    mrd_track_id track; /* the track of a TRACK row; for a group, any track in it */
    uint32_t uuid;      /* uuid of the row in the trace; 0 until the sink has written the row */
} mrd_row;

typedef struct {
    const mrd_catalog *catalog;
    const mrd_group *primary, *secondary;
    uint32_t profile;
    mrd_row *v; /* all rows; the root is the first one */
    size_t n, cap;
    /* indexed by mrd_track_id: index of the track's row; UINT32_MAX for tracks of other profiles */
    uint32_t *of_track;
    size_t tracks;
} mrd_pf_rows;

/* Makes all rows of a profile. Errors: NOMEM. mrd_pf_rows_fini may be called on a zeroed
 * mrd_pf_rows. */
mrd_err mrd_pf_rows_init(mrd_pf_rows *rows, const mrd_catalog *cat, uint32_t profile,
                         const mrd_sink_options *options);
void mrd_pf_rows_fini(mrd_pf_rows *rows);

/* Returns the distance between the Perfetto sort ranks of neighbouring rows. The ranks in between
 * are for further lanes of a row, which show overlapping spans. */
int32_t mrd_pf_rows_stride(const mrd_pf_rows *rows, const mrd_row *row);
void mrd_pf_rows_name(const mrd_pf_rows *rows, const mrd_row *row, mrd_buf *to);
/* Appends the identity of a process as text. */
void mrd_pf_rows_describe_process(const mrd_catalog *cat, const mrd_process *process, mrd_buf *to);
/* Appends the row's identity as text, or nothing if the row has none. */
void mrd_pf_rows_describe(const mrd_pf_rows *rows, const mrd_row *row, mrd_buf *to);

#endif
