#include "agent/rings/open_spans.h"

#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

static size_t
slot_of(const mrd_open_spans *o, uint64_t key)
{
    key *= 0x9e3779b97f4a7c15u;
    return (size_t) (key ^ key >> 32) & (o->n_slots - 1);
}

void
mrd_open_spans_fini(mrd_open_spans *o)
{
    for (size_t i = 0; i < o->n_slots; i++)
        for (mrd_open_span *s = o->slots[i], *next; s != NULL; s = next) {
            next = s->next;
            free(s);
        }
    free(o->slots);
    free(o->taken);
    *o = (mrd_open_spans){ 0 };
}

mrd_open_span *
mrd_open_spans_find(mrd_open_spans *o, uint64_t key, bool early)
{
    mrd_open_span *s = o->n_slots == 0 ? NULL : o->slots[slot_of(o, key)];

    while (s != NULL && (s->key != key || s->early != early))
        s = s->next;
    return s;
}

static bool
grow(mrd_open_spans *o)
{
    mrd_open_spans bigger = { .n_slots = o->n_slots == 0 ? 64 : o->n_slots * 2 };

    if ((bigger.slots = calloc(bigger.n_slots, sizeof(*bigger.slots))) == NULL)
        return false;
    for (size_t i = 0; i < o->n_slots; i++)
        for (mrd_open_span *s = o->slots[i], *next; s != NULL; s = next) {
            size_t at = slot_of(&bigger, s->key);

            next = s->next;
            s->next = bigger.slots[at];
            bigger.slots[at] = s;
        }
    free(o->slots);
    o->slots = bigger.slots;
    o->n_slots = bigger.n_slots;
    return true;
}

mrd_err
mrd_open_spans_add(mrd_open_spans *o, uint64_t key, bool early, mrd_local_ns since,
                   const mrd_event *ev)
{
    size_t text = 0, args = ev->arg_count * sizeof(mrd_arg), at;
    mrd_open_span *s;
    char *to;

    if (o->n >= MRD_OPEN_SPANS_MAX)
        return MRD_LIMIT;
    if (o->n >= o->n_slots && !grow(o))
        return MRD_NOMEM;
    for (uint32_t i = 0; i < ev->arg_count; i++)
        text += mrd_arg_has_text(&ev->args[i]) ? ev->args[i].len : 0;
    if (o->bytes + sizeof(*s) + args + text > MRD_OPEN_SPANS_BYTES)
        return MRD_LIMIT;
    if ((s = malloc(sizeof(*s) + args + text)) == NULL)
        return MRD_NOMEM;
    *s = (mrd_open_span){
        .key = key, .bytes = sizeof(*s) + args + text, .early = early, .since = since, .ev = *ev
    };
    if (args > 0)
        memcpy(s->args, ev->args, args);
    to = (char *) s->args + args;
    for (uint32_t i = 0; i < ev->arg_count; i++)
        if (mrd_arg_has_text(&s->args[i])) {
            memcpy(to, s->args[i].v.text, s->args[i].len);
            s->args[i].v.text = to;
            to += s->args[i].len;
        }
    s->ev.args = s->args;
    s->ev.flows = NULL;
    s->ev.flow_count = 0;
    at = slot_of(o, key);
    s->next = o->slots[at];
    o->slots[at] = s;
    o->n++;
    o->bytes += s->bytes;
    o->n_early += early;
    return MRD_OK;
}

size_t
mrd_open_spans_memory(const mrd_open_spans *o)
{
    return o->bytes + o->n_slots * sizeof(*o->slots) + o->cap_taken * sizeof(*o->taken);
}

static void
note_taken(mrd_open_spans *o, const mrd_open_span *span)
{
    if (!MRD_VEC_ROOM(o->taken, o->n_taken, o->cap_taken, 1)) {
        o->taken_lost = true;
        return;
    }
    o->taken[o->n_taken][0] = span->key;
    o->taken[o->n_taken++][1] = span->early;
}

void
mrd_open_spans_saved(mrd_open_spans *o, mrd_open_span *const *spans, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        o->n_saved += !spans[i]->saved;
        spans[i]->saved = true;
    }
}

void
mrd_open_spans_unsave(mrd_open_spans *o)
{
    for (size_t i = 0; i < o->n_slots; i++)
        for (mrd_open_span *s = o->slots[i]; s != NULL; s = s->next)
            s->saved = false;
    o->n_saved = o->n_taken = 0;
    o->taken_lost = false;
}

void
mrd_open_spans_take(mrd_open_spans *o, mrd_open_span *span)
{
    mrd_open_span **at = &o->slots[slot_of(o, span->key)];

    while (*at != span)
        at = &(*at)->next;
    *at = span->next;
    o->n--;
    o->bytes -= span->bytes;
    o->n_early -= span->early;
    if (span->saved) {
        o->n_saved--;
        note_taken(o, span);
    }
}
