#include "trace/table/yaml_tree.h"

#include <stdlib.h>
#include <yaml.h>

#include "base/vec.h"

typedef struct {
    mrd_yaml *y;
    const char *name;
    size_t line; /* of the first line */
    uint32_t open[MRD_YAML_DEPTH], last[MRD_YAML_DEPTH];
    size_t depth;
    uint32_t root;
    mrd_why *why;
} reading;

typedef struct {
    mrd_str text;
    uint32_t node;
} key_at;

mrd_str
mrd_yaml_text(const mrd_yaml *y, uint32_t node)
{
    const mrd_yaml_node *v = &y->nodes[node];

    if (node == 0 || v->kind != MRD_YAML_SCALAR || v->len == 0) /* then there may be no text yet */
        return MRD_STR("");
    return (mrd_str){ (const char *) y->text.p + v->text_at, v->len };
}

uint32_t
mrd_yaml_get(const mrd_yaml *y, uint32_t map, const char *key)
{
    if (map == 0 || y->nodes[map].kind != MRD_YAML_MAP)
        return 0;
    for (uint32_t k = y->nodes[map].first; k != 0; k = y->nodes[y->nodes[k].next].next) {
        if (mrd_str_is(mrd_yaml_text(y, k), key))
            return y->nodes[k].next;
    }
    return 0;
}

static int
key_order(const void *a, const void *b)
{
    const key_at *x = a, *y = b;
    size_t n = x->text.len < y->text.len ? x->text.len : y->text.len;
    int order = n == 0 ? 0 : memcmp(x->text.p, y->text.p, n);

    return order != 0                   ? order
           : x->text.len != y->text.len ? (x->text.len < y->text.len ? -1 : 1)
           : x->node < y->node          ? -1
                                        : x->node > y->node;
}

/* A mapping is whole: its keys are scalars, and no two are equal. */
static mrd_err
check_keys(const reading *r, uint32_t map)
{
    const mrd_yaml *y = r->y;
    key_at *keys;
    size_t n = 0;
    mrd_err err = MRD_OK;

    for (uint32_t k = y->nodes[map].first; k != 0; k = y->nodes[y->nodes[k].next].next) {
        if (y->nodes[k].kind != MRD_YAML_SCALAR)
            return mrd_why_set(r->why, MRD_INVALID, 0, "%s:%u: a key is no plain text", r->name,
                               y->nodes[k].line);
        n++;
    }
    if (n < 2)
        return MRD_OK;
    if ((keys = calloc(n, sizeof(*keys))) == NULL)
        return mrd_why_set(r->why, MRD_NOMEM, 0, "%s", r->name);
    n = 0;
    for (uint32_t k = y->nodes[map].first; k != 0; k = y->nodes[y->nodes[k].next].next)
        keys[n++] = (key_at){ mrd_yaml_text(y, k), k };
    qsort(keys, n, sizeof(*keys), key_order);
    for (size_t i = 1; i < n && err == MRD_OK; i++) {
        if (mrd_str_eq(keys[i].text, keys[i - 1].text))
            err = mrd_why_set(r->why, MRD_INVALID, 0, "%s:%u: '%.*s' is there already, on line %u",
                              r->name, y->nodes[keys[i].node].line,
                              keys[i].text.len < 80 ? (int) keys[i].text.len : 80, keys[i].text.p,
                              y->nodes[keys[i - 1].node].line);
    }
    free(keys);
    return err;
}

static mrd_err
add_node(reading *r, mrd_yaml_kind kind, const yaml_mark_t *mark, mrd_str text)
{
    mrd_yaml *y = r->y;
    uint32_t number = y->n == 0 ? 1 : y->n;
    unsigned line = (unsigned) (r->line + mark->line);

    if (number > MRD_YAML_NODES)
        return mrd_why_set(r->why, MRD_LIMIT, 0, "%s:%u: more than %d values", r->name, line,
                           MRD_YAML_NODES);
    if (!MRD_VEC_ROOM(y->nodes, number, y->cap, 1))
        return mrd_why_set(r->why, MRD_NOMEM, 0, "%s", r->name);
    y->nodes[0] = (mrd_yaml_node){ 0 };
    y->nodes[number] = (mrd_yaml_node){ .kind = (uint8_t) kind,
                                        .line = line,
                                        .text_at = (uint32_t) y->text.len,
                                        .len = (uint32_t) text.len };
    y->n = number + 1;
    mrd_buf_str(&y->text, text);
    if (y->text.err != MRD_OK)
        return mrd_why_set(r->why, y->text.err, 0, "%s", r->name);
    if (r->depth == 0) {
        r->root = number;
    } else {
        uint32_t *last = &r->last[r->depth - 1];

        if (*last == 0)
            y->nodes[r->open[r->depth - 1]].first = number;
        else
            y->nodes[*last].next = number;
        *last = number;
    }
    if (kind == MRD_YAML_SCALAR)
        return MRD_OK;
    if (r->depth == MRD_YAML_DEPTH)
        return mrd_why_set(r->why, MRD_DEPTH, 0, "%s:%u: nested more than %d deep", r->name, line,
                           MRD_YAML_DEPTH);
    r->open[r->depth] = number;
    r->last[r->depth++] = 0;
    return MRD_OK;
}

static mrd_err
take(reading *r, const yaml_event_t *e)
{
    switch (e->type) {
    case YAML_SCALAR_EVENT:
        return add_node(r, MRD_YAML_SCALAR, &e->start_mark,
                        (mrd_str){ (const char *) e->data.scalar.value, e->data.scalar.length });
    case YAML_SEQUENCE_START_EVENT:
        return add_node(r, MRD_YAML_LIST, &e->start_mark, MRD_STR(""));
    case YAML_MAPPING_START_EVENT:
        return add_node(r, MRD_YAML_MAP, &e->start_mark, MRD_STR(""));
    case YAML_SEQUENCE_END_EVENT:
        r->depth--;
        return MRD_OK;
    case YAML_MAPPING_END_EVENT:
        return check_keys(r, r->open[--r->depth]);
    case YAML_ALIAS_EVENT:
        return mrd_why_set(r->why, MRD_INVALID, 0, "%s:%zu: an alias (*name) is not read", r->name,
                           r->line + e->start_mark.line);
    default:
        return MRD_OK;
    }
}

mrd_err
mrd_yaml_add(mrd_yaml *y, mrd_str text, size_t line, const char *name, uint32_t *ret_root,
             mrd_why *why)
{
    reading r = { .y = y, .name = name, .line = line, .why = why };
    yaml_parser_t parser;
    yaml_event_t event;
    bool end = false;
    mrd_err err = MRD_OK;

    if (!yaml_parser_initialize(&parser))
        return mrd_why_set(why, MRD_NOMEM, 0, "%s", name);
    yaml_parser_set_input_string(&parser, (const unsigned char *) text.p, text.len);
    while (err == MRD_OK && !end) {
        if (!yaml_parser_parse(&parser, &event)) {
            err = mrd_why_set(why,
                              parser.error == YAML_MEMORY_ERROR   ? MRD_NOMEM
                              : parser.error == YAML_READER_ERROR ? MRD_UTF8
                                                                  : MRD_SYNTAX,
                              0, "%s:%zu: %s", name, line + parser.problem_mark.line,
                              parser.problem == NULL ? "no YAML" : parser.problem);
            break;
        }
        end = event.type == YAML_DOCUMENT_END_EVENT || event.type == YAML_STREAM_END_EVENT;
        err = take(&r, &event);
        yaml_event_delete(&event);
    }
    yaml_parser_delete(&parser);
    if (err == MRD_OK)
        *ret_root = r.root;
    return err;
}

void
mrd_yaml_fini(mrd_yaml *y)
{
    free(y->nodes);
    mrd_buf_fini(&y->text);
    *y = (mrd_yaml){ 0 };
}
