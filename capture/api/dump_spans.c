#include "capture/api/dump_spans.h"

#include <stdlib.h>
#include <string.h>

typedef struct open_span {
    struct open_span *next;
    uint64_t id;
    mrd_dump_span span;
} open_span;

typedef struct {
    int32_t tid;
    uint64_t name; /* hash of the thread's name */
} named;

typedef struct {
    uint64_t ring, read;
} looked;

#define SLOTS 1024u

static open_span *slots[SLOTS];
static size_t n_open;
static struct {
    mrd_dump_end *v;
    size_t n, cap;
} ends;
static struct {
    named *v;
    size_t n, cap;
} threads;
static struct {
    looked *v;
    size_t n, cap;
} rings;

static open_span **
slot_of(uint64_t id)
{
    return &slots[(id * 0x9e3779b97f4a7c15u) >> 54];
}

static bool
room(void **v, size_t n, size_t *cap, size_t size)
{
    size_t more = *cap == 0 ? 64 : *cap * 2;
    void *grown;

    if (n < *cap)
        return true;
    if (n >= MRD_DUMP_SPANS_MAX || (grown = realloc(*v, more * size)) == NULL)
        return false;
    *v = grown;
    *cap = more;
    return true;
}

/* ---- spans that have begun and not ended ----------------------------------------------------- */

void
mrd_dump_span_free(mrd_dump_span *span)
{
    free(span->name);
    free(span->cat);
}

bool
mrd_dump_span_begin(uint64_t id, const char *name, size_t name_len, const char *cat, size_t cat_len)
{
    open_span **slot = slot_of(id), *span;

    if (n_open == MRD_DUMP_SPANS_MAX || (span = calloc(1, sizeof(*span))) == NULL)
        return false;
    span->id = id;
    span->span.name = strndup(name, name_len);
    span->span.cat = cat_len == 0 ? NULL : strndup(cat, cat_len);
    if (span->span.name == NULL || (cat_len > 0 && span->span.cat == NULL)) {
        mrd_dump_span_free(&span->span);
        free(span);
        return false;
    }
    span->next = *slot;
    *slot = span;
    n_open++;
    return true;
}

bool
mrd_dump_span_take(uint64_t id, mrd_dump_span *ret_span)
{
    open_span **at = slot_of(id), *span;

    while (*at != NULL && (*at)->id != id)
        at = &(*at)->next;
    if ((span = *at) == NULL)
        return false;
    *at = span->next;
    *ret_span = span->span;
    free(span);
    n_open--;
    return true;
}

/* ---- ends of spans whose begin was not read yet ---------------------------------------------- */

bool
mrd_dump_end_keep(uint64_t id, char *text)
{
    void *v = ends.v;
    bool ok = text != NULL && room(&v, ends.n, &ends.cap, sizeof(*ends.v));

    ends.v = v;
    if (!ok) {
        free(text);
        return false;
    }
    ends.v[ends.n++] = (mrd_dump_end){ id, text };
    return true;
}

mrd_dump_end *
mrd_dump_ends(size_t *ret_n)
{
    *ret_n = ends.n;
    return ends.v;
}

void
mrd_dump_ends_compact(void)
{
    size_t n = 0;

    for (size_t i = 0; i < ends.n; i++)
        if (ends.v[i].text != NULL)
            ends.v[n++] = ends.v[i];
    ends.n = n;
}

uint64_t *
mrd_dump_looked(uint64_t ring)
{
    void *v = rings.v;
    bool ok;

    for (size_t i = 0; i < rings.n; i++)
        if (rings.v[i].ring == ring)
            return &rings.v[i].read;
    ok = room(&v, rings.n, &rings.cap, sizeof(*rings.v));
    rings.v = v;
    if (!ok)
        return NULL;
    rings.v[rings.n] = (looked){ ring, 0 };
    return &rings.v[rings.n++].read;
}

/* ---- thread names that the file already has -------------------------------------------------- */

bool
mrd_dump_thread_is_new(int32_t tid, const char *name, size_t len)
{
    uint64_t hash = 1469598103934665603u;
    size_t i = 0;
    void *v;
    bool ok;

    for (size_t k = 0; k < len; k++)
        hash = (hash ^ (uint8_t) name[k]) * 1099511628211u;
    while (i < threads.n && threads.v[i].tid != tid)
        i++;
    if (i < threads.n) {
        bool same = threads.v[i].name == hash;

        threads.v[i].name = hash;
        return !same;
    }
    v = threads.v;
    ok = room(&v, threads.n, &threads.cap, sizeof(*threads.v));
    threads.v = v;
    if (ok)
        threads.v[threads.n++] = (named){ tid, hash };
    return true;
}

void
mrd_dump_threads_forget(void)
{
    threads.n = 0;
}

void
mrd_dump_spans_forget(void)
{
    for (size_t i = 0; i < SLOTS; i++)
        while (slots[i] != NULL) {
            open_span *span = slots[i];

            slots[i] = span->next;
            mrd_dump_span_free(&span->span);
            free(span);
        }
    n_open = 0;
    for (size_t i = 0; i < ends.n; i++)
        free(ends.v[i].text);
    ends.n = 0;
    rings.n = 0;
    mrd_dump_threads_forget();
}
