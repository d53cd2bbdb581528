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

/* The use of a category by one process, from its last sample. */
typedef struct {
    size_t memory; /* + 1; 0 means not looked up, or none of them */
    unsigned category;
    int64_t bytes;
} hbm_series;

typedef struct {
    mrd_hbm_row row;
    bool total, changed; /* total: stated */
} hbm_memory;

struct mrd_hbm {
    const mrd_catalog *cat;
    mrd_hbm_fn *give;
    void *self;
    hbm_series *series; /* by track */
    hbm_memory *v;
    size_t n, cap;
    mrd_ev_ns at; /* of the changes */
    bool any;
};

mrd_hbm *
mrd_hbm_new(const mrd_catalog *cat, mrd_hbm_fn *give, void *self)
{
    mrd_hbm *h = calloc(1, sizeof(*h));

    if (h == NULL)
        return NULL;
    *h = (mrd_hbm){ .cat = cat, .give = give, .self = self };
    h->series = calloc(mrd_catalog_tracks(cat) + 1, sizeof(*h->series));
    if (h->series == NULL) {
        free(h);
        return NULL;
    }
    return h;
}

void
mrd_hbm_free(mrd_hbm *h)
{
    if (h == NULL)
        return;
    free(h->series);
    free(h->v);
    free(h);
}

/* Parses "hbm.2.tensors", or "hbm.2.tensors_bytes" of the vendor's own JSON. */
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

/* Returns the memory of a device of the track's node; NULL if out of memory. */
static hbm_memory *
memory_of(mrd_hbm *h, const mrd_track *t, int64_t index)
{
    mrd_sid node = mrd_catalog_borrow_process(h->cat, t->process)->instance_id;

    for (size_t i = 0; i < h->n; i++) {
        const mrd_hbm_row *row = &h->v[i].row;

        if (row->device == t->device_idx && row->index == index &&
            mrd_catalog_borrow_process(h->cat, row->process)->instance_id == node)
            return &h->v[i];
    }
    if (!MRD_VEC_ROOM(h->v, h->n, h->cap, 1))
        return NULL;
    h->v[h->n] =
        (hbm_memory){ .row = { .process = t->process, .device = t->device_idx, .index = index } };
    return &h->v[h->n++];
}

static mrd_err
look_at(mrd_hbm *h, mrd_track_id track, hbm_series *s)
{
    const mrd_track *t = mrd_catalog_borrow_track(h->cat, track);
    hbm_memory *m;
    mrd_str category;
    int64_t index;

    if (!take_apart(mrd_catalog_text(h->cat, t->name), &index, &category))
        return MRD_OK;
    if ((m = memory_of(h, t, index)) == NULL)
        return MRD_NOMEM;
    s->memory = (size_t) (m - h->v) + 1;
    s->category = category_of(category);
    return MRD_OK;
}

mrd_err
mrd_hbm_flush(mrd_hbm *h)
{
    mrd_err err = MRD_OK;

    for (size_t i = 0; i < h->n && err == MRD_OK; i++) {
        mrd_hbm_row row = h->v[i].row;

        if (!h->v[i].changed)
            continue;
        h->v[i].changed = false;
        row.at = h->at;
        for (unsigned k = 0; k < MRD_HBM_CATEGORIES && !h->v[i].total; k++)
            row.total += row.bytes[k];
        err = h->give(h->self, &row);
    }
    return err;
}

mrd_err
mrd_hbm_add(mrd_hbm *h, const mrd_event *ev, double bytes)
{
    hbm_series *s = &h->series[ev->track];
    int64_t now = bytes > 0 && bytes < 1e18 ? (int64_t) bytes : 0;
    mrd_err err = s->memory == 0 ? look_at(h, ev->track, s) : MRD_OK;
    hbm_memory *m;

    if (err == MRD_OK && h->any && h->at.ns != ev->ts.ns)
        err = mrd_hbm_flush(h);
    if (err != MRD_OK || s->memory == 0)
        return err;
    m = &h->v[s->memory - 1];
    *(s->category == TOTAL ? &m->row.total : &m->row.bytes[s->category]) += now - s->bytes;
    m->total = m->total || s->category == TOTAL;
    m->changed = h->any = true;
    s->bytes = now;
    h->at = ev->ts;
    return MRD_OK;
}
