#include "trace/model/open.h"

#include <stdlib.h>

#include "base/vec.h"

mrd_open *
mrd_open_new(const mrd_event *ev)
{
    size_t size = sizeof(mrd_open), args_size = ev->arg_count * sizeof(mrd_arg);
    size_t flows_size = ev->flow_count * sizeof(mrd_flow);
    mrd_open *open;
    mrd_arg *args;
    mrd_flow *flows;
    char *text;

    size += args_size + flows_size;
    for (uint32_t i = 0; i < ev->arg_count; i++)
        size += mrd_arg_has_text(&ev->args[i]) ? ev->args[i].len : 0;
    if ((open = malloc(size)) == NULL)
        return NULL;
    args = (mrd_arg *) (void *) (open + 1);
    flows = (mrd_flow *) (void *) (args + ev->arg_count);
    text = (char *) (flows + ev->flow_count);
    open->told = 0;
    open->below = NULL;
    open->mark = 0;
    open->bytes = size;
    open->ev = *ev;
    open->ev.args = args;
    open->ev.flows = flows;
    if (flows_size > 0)
        memcpy(flows, ev->flows, flows_size);
    if (args_size > 0)
        memcpy(args, ev->args, args_size);
    for (uint32_t i = 0; i < ev->arg_count; i++) {
        if (mrd_arg_has_text(&args[i])) {
            memcpy(text, args[i].v.text, args[i].len);
            args[i].v.text = text;
            text += args[i].len;
        }
    }
    return open;
}

void
mrd_open_free(mrd_open *open)
{
    free(open);
}

void
mrd_joiner_fini(mrd_joiner *j)
{
    free(j->v);
    mrd_map_fini(&j->end_keys);
    *j = (mrd_joiner){ 0 };
}

static bool
arg_same(const mrd_arg *a, const mrd_arg *b)
{
    if (a->type != b->type)
        return false;
    if (mrd_arg_has_text(a))
        return a->len == b->len && memcmp(a->v.text, b->v.text, a->len) == 0;
    return a->type == MRD_ARG_STR ? a->v.sid == b->v.sid : a->v.u == b->v.u;
}

static mrd_err
join_end_key(mrd_joiner *j, mrd_sid key, mrd_sid *ret_key)
{
    mrd_map_key at = { key, 0, 0 };
    uint32_t sid = mrd_map_get(&j->end_keys, at);
    mrd_str text = mrd_strtab_get(j->strings, key);
    mrd_buf name = { 0 };
    mrd_err err;

    if (sid != MRD_MAP_NONE) {
        *ret_key = sid;
        return MRD_OK;
    }
    mrd_buf_text(&name, "end.");
    mrd_buf_str(&name, text);
    if ((err = name.err) == MRD_OK)
        *ret_key = sid = mrd_strtab_add(j->strings, (mrd_str){ (const char *) name.p, name.len });
    mrd_buf_fini(&name);
    if (err == MRD_OK && sid != MRD_SID_FULL)
        (void) mrd_map_put(&j->end_keys, at, sid); /* if out of memory, it is only slower */
    return err;
}

mrd_err
mrd_join(mrd_joiner *j, const mrd_event *start, const mrd_arg *end, size_t n_end,
         const mrd_arg **ret_args, uint32_t *ret_n)
{
    size_t n = start->arg_count;

    if (n_end == 0) {
        *ret_args = start->args;
        *ret_n = start->arg_count;
        return MRD_OK;
    }
    if (!MRD_VEC_ROOM(j->v, n, j->cap, n_end))
        return MRD_NOMEM;
    if (n > 0)
        memcpy(j->v, start->args, n * sizeof(*j->v));
    for (size_t i = 0; i < n_end; i++) {
        mrd_arg *to = &j->v[n];
        bool same = false;

        *to = end[i];
        for (uint32_t k = 0; k < start->arg_count && !same; k++) {
            if (start->args[k].key != end[i].key)
                continue;
            same = arg_same(&start->args[k], &end[i]);
            if (join_end_key(j, end[i].key, &to->key) != MRD_OK)
                return MRD_NOMEM;
        }
        n += !same;
    }
    *ret_args = j->v;
    *ret_n = (uint32_t) n;
    return MRD_OK;
}

/* ---- The table ---- */

void
mrd_open_table_fini(mrd_open_table *t)
{
    for (size_t i = 0; i < t->n; i++)
        mrd_open_free(t->slots[i].open);
    free(t->slots);
    mrd_map_fini(&t->first);
    *t = (mrd_open_table){ 0 };
}

/* Returns a free slot, MRD_OPEN_NONE if out of memory. */
static uint32_t
open_slot(mrd_open_table *t)
{
    if (t->n == 0)
        t->oldest = t->newest = t->free = MRD_OPEN_NONE;
    if (t->free != MRD_OPEN_NONE)
        return t->free;
    if (!MRD_VEC_ROOM(t->slots, t->n, t->cap, 1))
        return MRD_OPEN_NONE;
    t->slots[t->n] = (mrd_open_slot){ .newer = MRD_OPEN_NONE };
    t->free = (uint32_t) t->n++;
    return t->free;
}

mrd_err
mrd_open_put(mrd_open_table *t, mrd_map_key key, mrd_open *open)
{
    uint32_t slot = open_slot(t), at;

    if (slot == MRD_OPEN_NONE)
        return MRD_NOMEM;
    at = mrd_map_get(&t->first, key);
    if (at == MRD_MAP_NONE && mrd_map_put(&t->first, key, slot) != MRD_OK)
        return MRD_NOMEM;
    t->free = t->slots[slot].newer;
    t->slots[slot] = (mrd_open_slot){ open, key, t->newest, MRD_OPEN_NONE, slot, MRD_OPEN_NONE };
    if (at != MRD_MAP_NONE) {
        uint32_t last = t->slots[at].before_same;

        t->slots[last].next_same = slot;
        t->slots[slot].before_same = last;
        t->slots[at].before_same = slot;
    }
    if (t->newest == MRD_OPEN_NONE)
        t->oldest = slot;
    else
        t->slots[t->newest].newer = slot;
    t->newest = slot;
    t->used++;
    t->bytes += open->bytes;
    return MRD_OK;
}

uint32_t
mrd_open_first(const mrd_open_table *t, mrd_map_key key)
{
    return mrd_map_get(&t->first, key); /* MRD_OPEN_NONE and MRD_MAP_NONE are both UINT32_MAX */
}

uint32_t
mrd_open_next(const mrd_open_table *t, uint32_t slot)
{
    return t->slots[slot].next_same;
}

uint32_t
mrd_open_oldest(const mrd_open_table *t)
{
    return t->n == 0 ? MRD_OPEN_NONE : t->oldest;
}

mrd_open *
mrd_open_at(const mrd_open_table *t, uint32_t slot)
{
    return t->slots[slot].open;
}

static void
open_unchain(mrd_open_table *t, uint32_t slot)
{
    mrd_open_slot *s = &t->slots[slot];
    uint32_t first = mrd_map_get(&t->first, s->key);

    if (first == slot) {
        if (s->next_same == MRD_OPEN_NONE) {
            mrd_map_remove(&t->first, s->key);
            return;
        }
        t->slots[s->next_same].before_same = s->before_same;
        /* replaces an entry, so it needs no memory */
        (void) mrd_map_put(&t->first, s->key, s->next_same);
        return;
    }
    t->slots[s->before_same].next_same = s->next_same;
    if (s->next_same == MRD_OPEN_NONE)
        t->slots[first].before_same = s->before_same;
    else
        t->slots[s->next_same].before_same = s->before_same;
}

mrd_open *
mrd_open_take(mrd_open_table *t, uint32_t slot)
{
    mrd_open_slot *s = &t->slots[slot];
    mrd_open *open = s->open;

    open_unchain(t, slot);
    if (s->older == MRD_OPEN_NONE)
        t->oldest = s->newer;
    else
        t->slots[s->older].newer = s->newer;
    if (s->newer == MRD_OPEN_NONE)
        t->newest = s->older;
    else
        t->slots[s->newer].older = s->older;
    *s = (mrd_open_slot){ .newer = t->free };
    t->free = slot;
    t->used--;
    t->bytes -= open->bytes;
    return open;
}
