#include "trace/analysis/memory_use.h"

#include <stdlib.h>

#include "base/vec.h"

struct mrd_memory_use {
    const mrd_catalog *cat;
    uint32_t profile;
    mrd_memory_row *rows;
    size_t n_rows, cap_rows;
    /* Indexed by track: index of the counter's row plus 1. 0 if the track was not seen yet,
     * UINT32_MAX if it is not a counter of used memory. */
    uint32_t *row_of;
    size_t n_tracks;
    uint64_t left_out;
};

mrd_memory_use *
mrd_memory_use_new(const mrd_sink_env *env)
{
    mrd_memory_use *use = calloc(1, sizeof(*use));

    if (use == NULL)
        return NULL;
    use->cat = env->catalog;
    use->profile = env->profile;
    use->n_tracks = mrd_catalog_tracks(use->cat);
    if ((use->row_of = calloc(use->n_tracks + 1, sizeof(*use->row_of))) == NULL) {
        free(use);
        return NULL;
    }
    return use;
}

void
mrd_memory_use_free(mrd_memory_use *use)
{
    if (use == NULL)
        return;
    free(use->rows);
    free(use->row_of);
    free(use);
}

/* Returns true if a counter with this name measures used memory. */
static bool
is_use(mrd_str name)
{
    if (mrd_str_starts(name, "hbm.") || mrd_str_ends(name, "rss_bytes") ||
        mrd_str_is(name, "mem.used_bytes"))
        return true;
    return mrd_str_has(name, "memory") &&
           (mrd_str_has(name, "used") || mrd_str_has(name, "usage")) &&
           !mrd_str_starts(name, "memory.");
}

static mrd_err
find_row(mrd_memory_use *use, mrd_track_id track, mrd_memory_row **ret)
{
    const mrd_track *t = mrd_catalog_borrow_track(use->cat, track);

    *ret = NULL;
    if (use->row_of[track] == UINT32_MAX)
        return MRD_OK;
    if (use->row_of[track] == 0) {
        use->row_of[track] = UINT32_MAX;
        if (t->unit != MRD_UNIT_BYTES || mrd_catalog_profile_of(use->cat, track) != use->profile ||
            !is_use(mrd_catalog_text(use->cat, t->name)))
            return MRD_OK;
        if (use->n_rows == MRD_MEMORY_ROWS) {
            use->left_out++;
            return MRD_OK;
        }
        if (!MRD_VEC_ROOM(use->rows, use->n_rows, use->cap_rows, 1))
            return MRD_NOMEM;
        use->rows[use->n_rows] = (mrd_memory_row){ .track = track, .width = 1 };
        use->row_of[track] = (uint32_t) ++use->n_rows;
    }
    *ret = &use->rows[use->row_of[track] - 1];
    return MRD_OK;
}

static void
add_sample(mrd_memory_row *row, mrd_ev_ns at, uint64_t bytes)
{
    uint64_t i = row->samples / row->width;

    if (i == MRD_MEMORY_BLOCKS) {
        for (i = 0; i < MRD_MEMORY_BLOCKS / 2; i++) {
            uint64_t a = row->block[2 * i], b = row->block[2 * i + 1];

            row->block[i] = a > b ? a : b;
        }
        row->width *= 2;
    }
    if (row->samples % row->width == 0 || bytes > row->block[i])
        row->block[i] = bytes;
    if (row->samples == 0) {
        row->first = bytes;
        row->first_at = at;
    }
    if (row->samples == 0 || bytes > row->peak) {
        row->peak = bytes;
        row->peak_at = at;
    }
    row->last = bytes;
    row->last_at = at;
    row->samples++;
}

mrd_err
mrd_memory_use_add(mrd_memory_use *use, const mrd_event *ev)
{
    mrd_memory_row *row;
    mrd_err err;
    double bytes = (ev->flags & MRD_EV_INT) != 0 ? (double) ev->ivalue : ev->value;

    if (ev->kind != MRD_COUNTER || ev->track >= use->n_tracks || !(bytes >= 0 && bytes < 1e18))
        return MRD_OK;
    if ((err = find_row(use, ev->track, &row)) == MRD_OK && row != NULL)
        add_sample(row, ev->ts,
                   (ev->flags & MRD_EV_INT) != 0 ? (uint64_t) ev->ivalue : (uint64_t) bytes);
    return err;
}

static int
row_order(const void *a, const void *b, void *self)
{
    const mrd_memory_row *x = a, *y = b;
    const mrd_catalog *cat = self;
    const mrd_track *s = mrd_catalog_borrow_track(cat, x->track),
                    *t = mrd_catalog_borrow_track(cat, y->track);
    int order = (s->process > t->process) - (s->process < t->process);

    if (order == 0)
        order = (x->peak < y->peak) - (x->peak > y->peak);
    if (order == 0)
        order = strcmp(mrd_catalog_text(cat, s->name).p, mrd_catalog_text(cat, t->name).p);
    return order != 0 ? order : (x->track > y->track) - (x->track < y->track);
}

const mrd_memory_row *
mrd_memory_use_rows(mrd_memory_use *use, size_t *ret_n)
{
    if (use->n_rows > 1)
        qsort_r(use->rows, use->n_rows, sizeof(*use->rows), row_order,
                (void *) (uintptr_t) use->cat);
    for (size_t i = 0; i < use->n_rows; i++)
        use->row_of[use->rows[i].track] = (uint32_t) i + 1;
    *ret_n = use->n_rows;
    return use->rows;
}

uint64_t
mrd_memory_use_left_out(const mrd_memory_use *use)
{
    return use->left_out;
}

mrd_trend
mrd_memory_trend(const mrd_memory_row *row)
{
    double v[MRD_MEMORY_BLOCKS];
    size_t n = (size_t) (row->samples / row->width);

    for (size_t i = 0; i < n; i++)
        v[i] = (double) row->block[i];
    return mrd_trend_of(v, n, false);
}
