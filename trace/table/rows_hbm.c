#include "trace/table/rows_hbm.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/vec.h"

enum { UNKNOWN = MRD_HBM_CATEGORIES - 1, TOTAL };

static const char *const categories[MRD_HBM_CATEGORIES] = {
#define MRD_HBM_NAME(name) #name,
    MRD_HBM_COLUMNS(MRD_HBM_NAME)
#undef MRD_HBM_NAME
};

/* The latest sample of one counter: how much memory a process uses for a category. */
typedef struct {
    /* Index in mrd_hbm.v of the memory that the counter measures, plus 1. 0 if not looked up yet,
     * or if the track is no such counter. */
    size_t memory;
    unsigned category;
    int64_t bytes;
} hbm_series;

typedef struct {
    mrd_hbm_row row;
    bool total;   /* a sample stated the memory's total use */
    bool changed; /* a row has to be emitted */
} hbm_memory;

struct mrd_hbm {
    const mrd_catalog *cat;
    mrd_hbm_fn *give;
    void *self;
    hbm_series *series; /* indexed by track */
    hbm_memory *v;
    size_t n, cap;
    mrd_ev_ns at; /* time of the latest samples, for which no rows were emitted yet */
    bool any;
};

mrd_hbm *
mrd_hbm_new(const mrd_catalog *cat, mrd_hbm_fn *give, void *self)
{
    mrd_hbm *hbm = calloc(1, sizeof(*hbm));

    if (hbm == NULL)
        return NULL;
    *hbm = (mrd_hbm){ .cat = cat, .give = give, .self = self };
    hbm->series = calloc(mrd_catalog_tracks(cat) + 1, sizeof(*hbm->series));
    if (hbm->series == NULL) {
        free(hbm);
        return NULL;
    }
    return hbm;
}

void
mrd_hbm_free(mrd_hbm *hbm)
{
    if (hbm == NULL)
        return;
    free(hbm->series);
    free(hbm->v);
    free(hbm);
}

/* Parses the name of a counter: "hbm.2.tensors", or "hbm.2.tensors_bytes" in the vendor's own
 * JSON. */
static bool
take_apart(mrd_str counter, int64_t *ret_index, mrd_str *ret_category)
{
    const char *dot;
    mrd_str number;

    if (!mrd_str_starts(counter, "hbm.") ||
        (dot = memchr(counter.p + 4, '.', counter.len - 4)) == NULL)
        return false;
    number = (mrd_str){ counter.p + 4, (size_t) (dot - counter.p) - 4 };
    *ret_category = (mrd_str){ dot + 1, counter.len - number.len - 5 };
    if (mrd_str_ends(*ret_category, "_bytes"))
        ret_category->len -= strlen("_bytes");
    return mrd_num_i64(number, ret_index) == MRD_OK && *ret_index >= 0;
}

bool
mrd_hbm_is(mrd_str counter)
{
    int64_t index;
    mrd_str category;

    return take_apart(counter, &index, &category);
}

static unsigned
category_of(mrd_str name)
{
    if (mrd_str_is(name, "total"))
        return TOTAL;
    for (unsigned i = 0; i < UNKNOWN; i++)
        if (mrd_str_is(name, categories[i]))
            return i;
    return UNKNOWN;
}

/* Returns the memory with number `index` on the track's node, and adds it if it is new. NULL if out
 * of memory. */
static hbm_memory *
memory_of(mrd_hbm *hbm, const mrd_track *track, int64_t index)
{
    mrd_sid node = mrd_catalog_borrow_process(hbm->cat, track->process)->instance_id;

    for (size_t i = 0; i < hbm->n; i++) {
        const mrd_hbm_row *row = &hbm->v[i].row;

        if (row->device == track->device_idx && row->index == index &&
            mrd_catalog_borrow_process(hbm->cat, row->process)->instance_id == node)
            return &hbm->v[i];
    }
    if (!MRD_VEC_ROOM(hbm->v, hbm->n, hbm->cap, 1))
        return NULL;
    hbm->v[hbm->n] = (hbm_memory){
        .row = { .process = track->process, .device = track->device_idx, .index = index }
    };
    return &hbm->v[hbm->n++];
}

static mrd_err
look_at(mrd_hbm *hbm, mrd_track_id track, hbm_series *series)
{
    const mrd_track *t = mrd_catalog_borrow_track(hbm->cat, track);
    hbm_memory *memory;
    mrd_str category;
    int64_t index;

    if (!take_apart(mrd_catalog_text(hbm->cat, t->name), &index, &category))
        return MRD_OK;
    if ((memory = memory_of(hbm, t, index)) == NULL)
        return MRD_NOMEM;
    series->memory = (size_t) (memory - hbm->v) + 1;
    series->category = category_of(category);
    return MRD_OK;
}

mrd_err
mrd_hbm_flush(mrd_hbm *hbm)
{
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < hbm->n && err == MRD_OK; i++) {
        mrd_hbm_row row = hbm->v[i].row;

        if (!hbm->v[i].changed)
            continue;
        hbm->v[i].changed = false;
        row.at = hbm->at;
        for (unsigned k = 0; k < MRD_HBM_CATEGORIES && !hbm->v[i].total; k++)
            row.total += row.bytes[k];
        err = hbm->give(hbm->self, &row);
    }
    return err;
}

mrd_err
mrd_hbm_add(mrd_hbm *hbm, const mrd_event *ev, double bytes)
{
    hbm_series *series = &hbm->series[ev->track];
    int64_t now = bytes > 0 && bytes < 1e18 ? (int64_t) bytes : 0;
    mrd_err err = series->memory == 0 ? look_at(hbm, ev->track, series) : MRD_OK;
    hbm_memory *memory;

    if (err == MRD_OK && hbm->any && hbm->at.ns != ev->ts.ns)
        err = mrd_hbm_flush(hbm);
    if (err != MRD_OK || series->memory == 0)
        return err;
    memory = &hbm->v[series->memory - 1];
    *(series->category == TOTAL ? &memory->row.total : &memory->row.bytes[series->category]) +=
        now - series->bytes;
    memory->total = memory->total || series->category == TOTAL;
    memory->changed = hbm->any = true;
    series->bytes = now;
    hbm->at = ev->ts;
    return MRD_OK;
}
