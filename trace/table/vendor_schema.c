#include "trace/table/vendor_schema.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/num.h"
#include "base/vec.h"
#include "trace/table/yaml_tree.h"

#define HOW_TO                                                                                     \
    "neuron-explorer view --show-profile-schema > FILE writes one (before SDK 2.33 without "       \
    "\'view\')"

enum { NAME_MAX_LEN = 64, FIELD_MAX_LEN = 128 };

/* A block `Name:` of the dump. */
typedef struct {
    uint32_t name, body; /* nodes */
    bool is_enum;
} definition;

struct mrd_vendor_schema {
    mrd_dialect dialect;
    mrd_strlist texts; /* all that dialect points to */
    mrd_schema_field *fields;
    size_t n_fields, cap_fields;
    mrd_table_def *tables;
    mrd_column **columns; /* by table */
    size_t n_tables;
};

typedef struct {
    mrd_vendor_schema *s;
    const char *name;
    mrd_yaml yaml;
    definition *defs;
    size_t n_defs, cap_defs;
    uint32_t version; /* node */
    mrd_buf unfilled, left_out, absent;
    size_t n_unfilled, n_left_out, n_absent;
    size_t kept; /* bytes of texts */
    mrd_why *why;
} loading;

/* What a property is. */
typedef struct {
    mrd_str type, item; /* "array": of what */
    uint32_t values;    /* node of an enum's list, 0 none */
} property_type;

static bool
is_identifier(mrd_str s, size_t most)
{
    for (size_t i = 0; i < s.len; i++) {
        char c = s.p[i];

        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
              (i > 0 && c >= '0' && c <= '9')))
            return false;
    }
    return s.len > 0 && s.len <= most;
}

static mrd_str
text_of(const loading *l, uint32_t node)
{
    return mrd_yaml_text(&l->yaml, node);
}

static unsigned
line_of(const loading *l, uint32_t node)
{
    return l->yaml.nodes[node].line;
}

/* A copy that the schema keeps; NULL: not_kept says why. */
static const char *
keep(loading *l, mrd_str text)
{
    mrd_strlist *texts = &l->s->texts;

    if (text.len == 0)
        return "";
    l->kept += text.len;
    return l->kept <= MRD_VENDOR_KEPT && mrd_strlist_add(texts, text) == MRD_OK
               ? texts->v[texts->n - 1]
               : NULL;
}

static mrd_err
not_kept(const loading *l)
{
    if (l->kept <= MRD_VENDOR_KEPT)
        return mrd_why_set(l->why, MRD_NOMEM, 0, "%s", l->name);
    return mrd_why_set(l->why, MRD_LIMIT, 0,
                       "%s: names, descriptions and values of all fields, those by reference "
                       "included, have more than %d MiB: that is no dump of a schema",
                       l->name, MRD_VENDOR_KEPT >> 20);
}

/* ---- Blocks ---- */

/* Whether a separator that ends at `at` begins a block: `Name:` follows, and nothing else on its line. */
static bool
block_follows(mrd_str text, size_t at, bool blank_first)
{
    size_t from = at;

    while (blank_first && at < text.len && (text.p[at] == '\n' || text.p[at] == '\r'))
        at++;
    if (blank_first && at == from)
        return false;
    for (from = at;
         at < text.len && at - from <= NAME_MAX_LEN && text.p[at] != ':' && text.p[at] != '\n';)
        at++;
    if (at == text.len || text.p[at] != ':' ||
        !is_identifier((mrd_str){ text.p + from, at - from }, NAME_MAX_LEN))
        return false;
    at++;
    while (at < text.len && (text.p[at] == ' ' || text.p[at] == '\r'))
        at++;
    return at == text.len || text.p[at] == '\n' ||
           mrd_str_starts((mrd_str){ text.p + from, text.len - from }, "openapi:");
}

/* The next `---` that separates blocks: at the start of a line, or where a block without a line end was
 * joined to the next one. */
static size_t
next_separator(mrd_str text, size_t at)
{
    for (; at + 3 <= text.len; at++) {
        const char *found = memchr(text.p + at, '-', text.len - at - 2);

        if (found == NULL)
            break;
        at = (size_t) (found - text.p);
        if (memcmp(found, "---", 3) == 0 &&
            (at == 0 || found[-1] == '\n' || block_follows(text, at + 3, false) ||
             block_follows(text, at + 3, true)))
            return at;
    }
    return text.len;
}

static mrd_err
add_definitions(loading *l, uint32_t map)
{
    const mrd_yaml_node *nodes = l->yaml.nodes;

    if (map == 0)
        return MRD_OK;
    if (nodes[map].kind != MRD_YAML_MAP)
        return mrd_why_set(l->why, MRD_TYPE, 0, "%s:%u: a table is expected ('Name:'); " HOW_TO,
                           l->name, line_of(l, map));
    for (uint32_t k = nodes[map].first; k != 0; k = nodes[nodes[k].next].next) {
        uint32_t body = nodes[k].next;
        mrd_str name = text_of(l, k);

        if (mrd_yaml_get(&l->yaml, body, "$ref") != 0)
            continue; /* of the root: the block comes itself */
        if (!is_identifier(name, NAME_MAX_LEN))
            return mrd_why_set(
                l->why, MRD_INVALID, 0,
                "%s:%u: '%.*s' is no name of a table: letters, digits and '_', at most %d", l->name,
                line_of(l, k), name.len < 80 ? (int) name.len : 80, name.p, NAME_MAX_LEN);
        if (nodes[body].kind != MRD_YAML_MAP)
            return mrd_why_set(l->why, MRD_TYPE, 0, "%s:%u: table %.*s is no mapping", l->name,
                               line_of(l, k), MRD_STR_ARG(name));
        for (size_t i = 0; i < l->n_defs; i++) {
            if (mrd_str_eq(text_of(l, l->defs[i].name), name))
                return mrd_why_set(l->why, MRD_INVALID, 0,
                                   "%s:%u: table %.*s is there already, on line %u", l->name,
                                   line_of(l, k), MRD_STR_ARG(name), line_of(l, l->defs[i].name));
        }
        if (l->n_defs == MRD_VENDOR_TABLES)
            return mrd_why_set(l->why, MRD_LIMIT, 0, "%s:%u: more than %d tables", l->name,
                               line_of(l, k), MRD_VENDOR_TABLES);
        if (!MRD_VEC_ROOM(l->defs, l->n_defs, l->cap_defs, 1))
            return mrd_why_set(l->why, MRD_NOMEM, 0, "%s", l->name);
        l->defs[l->n_defs++] = (definition){ k, body, mrd_yaml_get(&l->yaml, body, "enum") != 0 };
    }
    return MRD_OK;
}

static mrd_err
add_block(loading *l, mrd_str text, size_t line)
{
    uint32_t root = 0, schemas;
    mrd_err err = mrd_yaml_add(&l->yaml, text, line, l->name, &root, l->why);

    if (err != MRD_OK || root == 0)
        return err;
    if (mrd_yaml_get(&l->yaml, root, "openapi") == 0)
        return add_definitions(l, root);
    if (l->version != 0)
        return mrd_why_set(l->why, MRD_INVALID, 0, "%s:%zu: a second OpenAPI root", l->name, line);
    l->version = mrd_yaml_get(&l->yaml, mrd_yaml_get(&l->yaml, root, "info"), "version");
    schemas = mrd_yaml_get(&l->yaml, mrd_yaml_get(&l->yaml, root, "components"), "schemas");
    return schemas == 0 ? MRD_OK : add_definitions(l, schemas);
}

static mrd_err
add_blocks(loading *l, mrd_str text)
{
    size_t line = 1;
    mrd_err err = MRD_OK;

    for (size_t at = 0, end; at < text.len && err == MRD_OK; at = end + 3) {
        end = next_separator(text, at);
        err = add_block(l, (mrd_str){ text.p + at, end - at }, line);
        for (size_t i = at; i < end; i++)
            line += text.p[i] == '\n';
    }
    return err;
}

/* ---- The version ---- */

static bool
version_parts(mrd_str text, uint64_t parts[3])
{
    for (size_t i = 0; i < 3; i++) {
        size_t len = 0;

        while (len < text.len && text.p[len] != '.')
            len++;
        if (!mrd_num_digits((mrd_str){ text.p, len }, &parts[i]) || (i < 2) != (len < text.len))
            return false;
        text.p += i < 2 ? len + 1 : len;
        text.len -= i < 2 ? len + 1 : len;
    }
    return true;
}

static mrd_err
check_version(loading *l, int64_t major)
{
    mrd_str text = text_of(l, l->version);
    uint64_t parts[3];

    if (l->version == 0)
        return mrd_why_set(l->why, MRD_VERSION, 0,
                           "%s: it does not say its version (openapi: ..., info: version: "
                           "MAJOR.MINOR.PATCH), so it is no whole dump; " HOW_TO,
                           l->name);
    if (text.len > 40 || !version_parts(text, parts))
        return mrd_why_set(l->why, MRD_VERSION, 0,
                           "%s:%u: the schema's version '%.*s' is no MAJOR.MINOR.PATCH", l->name,
                           line_of(l, l->version), text.len < 40 ? (int) text.len : 40, text.p);
    if ((parts[0] < MRD_VENDOR_MAJOR_FIRST || parts[0] > MRD_VENDOR_MAJOR_LAST) &&
        (major < 0 || parts[0] != (uint64_t) major))
        return mrd_why_set(l->why, MRD_VERSION, 0,
                           "%s: schema %.*s: MAJOR %" PRIu64
                           " is unknown to this Meridian, which knows "
                           "%d to %d: a newer MAJOR may mean something else by a name. Compare the "
                           "tables of the system profile with 7.4.0, then --schema-major %" PRIu64
                           " accepts it; or use a newer Meridian",
                           l->name, MRD_STR_ARG(text), parts[0], MRD_VENDOR_MAJOR_FIRST,
                           MRD_VENDOR_MAJOR_LAST, parts[0]);
    l->s->dialect.version = keep(l, text);
    return l->s->dialect.version == NULL ? not_kept(l) : MRD_OK;
}

/* ---- Fields ---- */

/* The definition that a $ref names by its last component; NULL: none. */
static const definition *
referred(const loading *l, uint32_t ref)
{
    mrd_str name = text_of(l, ref);

    for (size_t i = name.len; i > 0; i--) {
        if (name.p[i - 1] == '/') {
            name.p += i;
            name.len -= i;
            break;
        }
    }
    for (size_t i = 0; i < l->n_defs; i++) {
        if (mrd_str_eq(text_of(l, l->defs[i].name), name))
            return &l->defs[i];
    }
    return NULL;
}

/* The scalar of `type`, or the first of its list that is not null (OpenAPI 3.1). */
static mrd_str
type_word(const loading *l, uint32_t node)
{
    const mrd_yaml_node *nodes = l->yaml.nodes;

    if (node == 0 || nodes[node].kind == MRD_YAML_SCALAR)
        return text_of(l, node);
    for (uint32_t i = nodes[node].kind == MRD_YAML_LIST ? nodes[node].first : 0; i != 0;
         i = nodes[i].next) {
        if (!mrd_str_is(text_of(l, i), "null"))
            return text_of(l, i);
    }
    return MRD_STR("");
}

static bool
is_type(mrd_str word)
{
    static const char *const types[] = {
        "integer", "number", "string", "boolean", "array", "object"
    };

    for (size_t i = 0; i < sizeof(types) / sizeof(*types); i++) {
        if (mrd_str_is(word, types[i]))
            return true;
    }
    return false;
}

/* False: it has no type that could be known. */
static bool
resolve(const loading *l, uint32_t body, property_type *ret)
{
    const mrd_yaml *y = &l->yaml;
    uint32_t ref = mrd_yaml_get(y, body, "$ref"), all = mrd_yaml_get(y, body, "allOf");
    const definition *def;

    *ret = (property_type){ .type = type_word(l, mrd_yaml_get(y, body, "type")),
                            .values = mrd_yaml_get(y, body, "enum") };
    if (ref == 0 && all != 0)
        ref = mrd_yaml_get(y, y->nodes[all].first, "$ref");
    if (ret->type.len == 0 && ref != 0 && (def = referred(l, ref)) != NULL) {
        ret->values = def->is_enum ? mrd_yaml_get(y, def->body, "enum") : 0;
        ret->type = def->is_enum ? MRD_STR("string") : MRD_STR("object");
    } else if (ret->type.len == 0 && ret->values != 0) {
        ret->type = MRD_STR("string");
    }
    if (mrd_str_is(ret->type, "array")) {
        uint32_t items = mrd_yaml_get(y, body, "items");

        ret->item = type_word(l, mrd_yaml_get(y, items, "type"));
        def = ret->item.len == 0 && items != 0 ? referred(l, mrd_yaml_get(y, items, "$ref")) : NULL;
        if (def != NULL)
            ret->item = def->is_enum ? MRD_STR("string") : MRD_STR("object");
    }
    return is_type(ret->type);
}

/* Scalars as they are, lists with commas. */
static const char *
keep_values(loading *l, uint32_t node)
{
    const mrd_yaml_node *nodes = l->yaml.nodes;
    mrd_buf text = { 0 };
    const char *kept = NULL;

    if (node == 0 || nodes[node].kind == MRD_YAML_SCALAR)
        return keep(l, text_of(l, node));
    for (uint32_t i = nodes[node].kind == MRD_YAML_LIST ? nodes[node].first : 0; i != 0;
         i = nodes[i].next) {
        mrd_buf_text(&text, text.len == 0 ? "" : ",");
        mrd_buf_str(&text, text_of(l, i));
    }
    if (text.err == MRD_OK)
        kept = keep(l, (mrd_str){ (const char *) text.p, text.len });
    mrd_buf_fini(&text);
    return kept;
}

static double
number_of(const loading *l, uint32_t node)
{
    double v = (double) NAN;

    return mrd_num_double(text_of(l, node), &v) == MRD_OK ? v : (double) NAN;
}

static bool
is_required(const loading *l, uint32_t list, mrd_str name)
{
    const mrd_yaml_node *nodes = l->yaml.nodes;

    for (uint32_t i = list != 0 && nodes[list].kind == MRD_YAML_LIST ? nodes[list].first : 0;
         i != 0; i = nodes[i].next) {
        if (mrd_str_eq(text_of(l, i), name))
            return true;
    }
    return false;
}

/* The unit: OpenAPI has no word for it. */
static uint32_t
unit_of(const loading *l, uint32_t body)
{
    static const char *const keys[] = { "x-unit", "x-units", "unit" };
    uint32_t node = 0;

    for (size_t i = 0; i < sizeof(keys) / sizeof(*keys) && node == 0; i++)
        node = mrd_yaml_get(&l->yaml, body, keys[i]);
    return node;
}

static mrd_err
add_field(loading *l, const definition *d, const char *table_what, uint32_t key, const char *table)
{
    mrd_vendor_schema *s = l->s;
    const mrd_yaml *y = &l->yaml;
    uint32_t body = y->nodes[key].next;
    mrd_str name = text_of(l, key);
    mrd_schema_field f = { .table = table, .table_what = table_what };
    property_type type;

    if (name.len == 0 || name.len > FIELD_MAX_LEN || memchr(name.p, 0, name.len) != NULL)
        return mrd_why_set(l->why, MRD_INVALID, 0,
                           "%s:%u: a field of table %s has no name of 1 to %d bytes", l->name,
                           line_of(l, key), table, FIELD_MAX_LEN);
    if (y->nodes[body].kind != MRD_YAML_MAP || !resolve(l, body, &type))
        return mrd_why_set(l->why, MRD_TYPE, 0,
                           "%s:%u: field %.*s of table %s has no type (integer, number, string, "
                           "boolean, array, object)",
                           l->name, line_of(l, key), MRD_STR_ARG(name), table);
    if (s->n_fields == MRD_VENDOR_FIELDS)
        return mrd_why_set(l->why, MRD_LIMIT, 0, "%s:%u: more than %d fields", l->name,
                           line_of(l, key), MRD_VENDOR_FIELDS);
    f.field = keep(l, name);
    f.what = keep(l, text_of(l, mrd_yaml_get(y, body, "description")));
    f.type = keep(l, type.type);
    f.format = keep(l, text_of(l, mrd_yaml_get(y, body, "format")));
    f.unit = keep(l, text_of(l, unit_of(l, body)));
    f.example = keep_values(l, mrd_yaml_get(y, body, "example"));
    f.values = keep_values(l, type.values);
    f.required = is_required(l, mrd_yaml_get(y, d->body, "required"), name);
    f.texts = mrd_str_is(type.type, "array") && mrd_str_is(type.item, "string");
    f.least = number_of(l, mrd_yaml_get(y, body, "minimum"));
    f.most = number_of(l, mrd_yaml_get(y, body, "maximum"));
    if (f.field == NULL || f.what == NULL || f.type == NULL || f.format == NULL || f.unit == NULL ||
        f.example == NULL || f.values == NULL ||
        !MRD_VEC_ROOM(s->fields, s->n_fields, s->cap_fields, 1))
        return not_kept(l);
    s->fields[s->n_fields++] = f;
    return MRD_OK;
}

static mrd_err
add_fields(loading *l, const definition *d)
{
    const mrd_yaml_node *nodes = l->yaml.nodes;
    uint32_t properties = mrd_yaml_get(&l->yaml, d->body, "properties");
    size_t before = l->s->n_fields;
    const char *table = keep(l, text_of(l, d->name));
    const char *what = keep(l, text_of(l, mrd_yaml_get(&l->yaml, d->body, "description")));
    mrd_err err = MRD_OK;

    if (table == NULL || what == NULL)
        return not_kept(l);
    if (properties != 0 && nodes[properties].kind != MRD_YAML_MAP)
        return mrd_why_set(l->why, MRD_TYPE, 0, "%s:%u: properties of table %s are no mapping",
                           l->name, line_of(l, properties), table);
    for (uint32_t k = properties == 0 ? 0 : nodes[properties].first; k != 0 && err == MRD_OK;
         k = nodes[nodes[k].next].next) {
        if (l->s->n_fields - before == MRD_VENDOR_TABLE_FIELDS)
            return mrd_why_set(l->why, MRD_LIMIT, 0, "%s:%u: table %s has more than %d fields",
                               l->name, line_of(l, k), table, MRD_VENDOR_TABLE_FIELDS);
        err = add_field(l, d, what, k, table);
    }
    return err;
}

/* ---- Tables ---- */

static void
name_one(mrd_buf *list, size_t *n, const char *table, const char *field)
{
    if ((*n)++ < MRD_VENDOR_NAMED)
        mrd_buf_fmt(list, "%s%s%s%s", list->len == 0 ? "" : ", ", table, field == NULL ? "" : ".",
                    field == NULL ? "" : field);
}

static const mrd_column *
known_column(const mrd_table_def *t, const char *name)
{
    for (size_t i = 0; i < t->n; i++) {
        if (strcmp(t->columns[i].name, name) == 0)
            return &t->columns[i];
    }
    return NULL;
}

/* The type of a column; false: none that can be written. */
static bool
column_type(const mrd_schema_field *f, const mrd_column *known, mrd_col_type *ret)
{
    if (strcmp(f->type, "integer") == 0)
        *ret = MRD_COL_I64;
    else if (strcmp(f->type, "number") == 0)
        *ret = strcmp(f->format, "double") == 0                ? MRD_COL_DOUBLE
               : strcmp(f->format, "float") == 0               ? MRD_COL_FLOAT
               : known != NULL && known->type == MRD_COL_FLOAT ? MRD_COL_FLOAT
                                                               : MRD_COL_DOUBLE;
    else if (strcmp(f->type, "boolean") == 0)
        *ret = MRD_COL_BOOL;
    else if (strcmp(f->type, "string") == 0)
        *ret = known != NULL && known->type == MRD_COL_SID ? MRD_COL_SID : MRD_COL_TEXT;
    else if (strcmp(f->type, "array") == 0 && f->texts)
        *ret = MRD_COL_FLOWS;
    else
        return false;
    return true;
}

static bool
same_kind(mrd_col_type a, mrd_col_type b)
{
    return a == b || (a == MRD_COL_FLOAT && b == MRD_COL_DOUBLE) ||
           (a == MRD_COL_DOUBLE && b == MRD_COL_FLOAT);
}

/* Columns of a table of ours by the fields of the dump. */
static mrd_err
make_table(loading *l, const mrd_table_def *ours, const mrd_schema_field *fields, size_t n)
{
    mrd_vendor_schema *s = l->s;
    mrd_table_def *t = &s->tables[s->n_tables];
    mrd_column *columns = calloc(n + 1, sizeof(*columns));
    bool rows = ours->rows != MRD_ROWS_NONE;

    if (columns == NULL)
        return mrd_why_set(l->why, MRD_NOMEM, 0, "%s", l->name);
    s->columns[s->n_tables] = columns;
    *t = (mrd_table_def){ .name = fields[0].table,
                          .rows = ours->rows,
                          .columns = columns,
                          .sorted_by = -1,
                          .what = fields[0].table_what };
    for (size_t i = 0; i < n; i++) {
        const mrd_column *known = known_column(ours, fields[i].field);
        mrd_column *c = &columns[t->n];

        if (!column_type(&fields[i], known, &c->type)) {
            if (rows)
                name_one(&l->left_out, &l->n_left_out, t->name, fields[i].field);
            continue;
        }
        c->name = fields[i].field;
        c->unit = fields[i].unit;
        c->what = fields[i].what;
        c->field = known != NULL && same_kind(c->type, known->type) ? known->field : F_NONE;
        c->optional = !fields[i].required || c->field == F_NONE || known->optional;
        if (c->field == F_NONE && rows)
            name_one(&l->unfilled, &l->n_unfilled, t->name, c->name);
        if (ours->sorted_by >= 0 && c->field != F_NONE && !c->optional &&
            c->field == ours->columns[ours->sorted_by].field)
            t->sorted_by = (int) t->n;
        if (++t->n > MRD_SCHEMA_COLUMNS)
            return mrd_why_set(
                l->why, MRD_LIMIT, 0,
                "%s: table %s has more than %d columns; Meridian does not write that many", l->name,
                t->name, MRD_SCHEMA_COLUMNS);
    }
    for (size_t c = 0; c < ours->n && rows; c++) {
        bool there = false;

        for (size_t i = 0; i < t->n; i++)
            there = there || strcmp(columns[i].name, ours->columns[c].name) == 0;
        if (!there && ours->columns[c].field != F_NONE)
            name_one(&l->absent, &l->n_absent, t->name, ours->columns[c].name);
    }
    s->n_tables++;
    return MRD_OK;
}

static mrd_err
make_tables(loading *l)
{
    const mrd_dialect *ours = &mrd_dialect_explorer;
    mrd_vendor_schema *s = l->s;
    bool events = false;
    mrd_err err = MRD_OK;

    s->tables = calloc(ours->n, sizeof(*s->tables));
    s->columns = calloc(ours->n, sizeof(*s->columns));
    if (s->tables == NULL || s->columns == NULL)
        return mrd_why_set(l->why, MRD_NOMEM, 0, "%s", l->name);
    for (size_t i = 0; i < ours->n && err == MRD_OK; i++) {
        size_t from = 0, n = 0;

        while (from < s->n_fields && strcmp(s->fields[from].table, ours->tables[i].name) != 0)
            from++;
        while (from + n < s->n_fields && s->fields[from + n].table == s->fields[from].table)
            n++;
        if (n > 0)
            err = make_table(l, &ours->tables[i], s->fields + from, n);
        else if (ours->tables[i].rows != MRD_ROWS_NONE)
            name_one(&l->absent, &l->n_absent, ours->tables[i].name, NULL);
        events = events || (n > 0 && ours->tables[i].rows == MRD_ROWS_EVENTS);
    }
    if (err == MRD_OK && !events)
        return mrd_why_set(
            l->why, MRD_UNSUPPORTED, 0,
            "%s: schema %s has no table SystemProfileEvents with fields: events have nowhere "
            "to go (without --schema they are written as schema %s)",
            l->name, s->dialect.version, ours->version);
    return err;
}

static void
say(mrd_buf *to, const char *what, const mrd_buf *list, size_t n)
{
    if (n == 0)
        return;
    mrd_buf_fmt(to, "%s%s: ", to->len == 0 ? "" : "; ", what);
    mrd_buf_add(to, list->p, list->len);
    if (n > MRD_VENDOR_NAMED)
        mrd_buf_fmt(to, " and %zu more", n - MRD_VENDOR_NAMED);
}

static mrd_err
make_warning(loading *l)
{
    mrd_buf list = { 0 }, text = { 0 };
    mrd_err err = MRD_OK;

    say(&list, "NULL, for Meridian has no values of that name and type", &l->unfilled,
        l->n_unfilled);
    say(&list, "left out, for their type cannot be written", &l->left_out, l->n_left_out);
    say(&list, "not in this schema, so not written", &l->absent, l->n_absent);
    if (list.len > 0) {
        mrd_buf_fmt(&text, "schema %s: ", l->s->dialect.version);
        mrd_buf_add(&text, list.p, list.len);
        if (list.err != MRD_OK || text.err != MRD_OK || l->unfilled.err != MRD_OK ||
            l->left_out.err != MRD_OK || l->absent.err != MRD_OK ||
            (l->s->dialect.warning = keep(l, (mrd_str){ (const char *) text.p, text.len })) == NULL)
            err = not_kept(l);
    }
    mrd_buf_fini(&list);
    mrd_buf_fini(&text);
    return err;
}

mrd_err
mrd_vendor_schema_parse(mrd_str text, const char *name, int64_t major,
                        mrd_vendor_schema **ret_schema, mrd_why *why)
{
    mrd_vendor_schema *s = calloc(1, sizeof(*s));
    loading l = { .s = s, .name = name, .why = why };
    mrd_err err;

    if (s == NULL)
        return mrd_why_set(why, MRD_NOMEM, 0, "%s", name);
    if (text.len > MRD_VENDOR_BYTES)
        err = mrd_why_set(why, MRD_LIMIT, 0, "%s has more than %d MiB: that is no dump of a schema",
                          name, MRD_VENDOR_BYTES >> 20);
    else
        err = add_blocks(&l, text);
    if (err == MRD_OK && l.n_defs == 0)
        err = mrd_why_set(why, MRD_EMPTY, 0, "%s has no tables; " HOW_TO, name);
    if (err == MRD_OK)
        err = check_version(&l, major);
    for (size_t i = 0; i < l.n_defs && err == MRD_OK; i++) {
        if (!l.defs[i].is_enum)
            err = add_fields(&l, &l.defs[i]);
    }
    if (err == MRD_OK)
        err = make_tables(&l);
    if (err == MRD_OK)
        err = make_warning(&l);
    s->dialect.name = mrd_dialect_explorer.name;
    s->dialect.tables = s->tables;
    s->dialect.n = s->n_tables;
    s->dialect.fields = s->fields;
    s->dialect.n_fields = s->n_fields;
    mrd_yaml_fini(&l.yaml);
    free(l.defs);
    mrd_buf_fini(&l.unfilled);
    mrd_buf_fini(&l.left_out);
    mrd_buf_fini(&l.absent);
    if (err == MRD_OK)
        *ret_schema = s;
    else
        mrd_vendor_schema_free(s);
    return err;
}

mrd_err
mrd_vendor_schema_read(const char *path, int64_t major, mrd_vendor_schema **ret_schema,
                       mrd_why *why)
{
    mrd_buf text = { 0 };
    uint64_t parts[3];
    mrd_err err = mrd_file_read(path, MRD_VENDOR_BYTES, &text, why);

    if (err == MRD_OK) {
        err = mrd_vendor_schema_parse((mrd_str){ (const char *) text.p, text.len }, path, major,
                                      ret_schema, why);
    } else if (err == MRD_NOTFOUND && version_parts(mrd_str_of(path), parts)) {
        if (strcmp(path, mrd_dialect_explorer.version) == 0 &&
            (*ret_schema = calloc(1, sizeof(**ret_schema))) != NULL) {
            (*ret_schema)->dialect = mrd_dialect_explorer;
            err = MRD_OK;
        } else {
            err = mrd_why_set(why, MRD_VERSION, 0,
                              "schema %s is not built in (%s is), and no file has that name: a "
                              "dump is needed; " HOW_TO,
                              path, mrd_dialect_explorer.version);
        }
    }
    mrd_buf_fini(&text);
    return err;
}

const mrd_dialect *
mrd_vendor_schema_dialect(const mrd_vendor_schema *schema)
{
    return &schema->dialect;
}

void
mrd_vendor_schema_free(mrd_vendor_schema *s)
{
    if (s == NULL)
        return;
    for (size_t i = 0; s->columns != NULL && i < mrd_dialect_explorer.n; i++)
        free(s->columns[i]);
    free(s->columns);
    free(s->tables);
    free(s->fields);
    mrd_strlist_fini(&s->texts);
    free(s);
}
