#include "trace/import/torch/pickle.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/conf/json.h"
#include "base/vec.h"

typedef enum {
    PK_NULL,
    PK_FALSE,
    PK_TRUE,
    PK_INT,
    PK_UINT,
    PK_REAL,
    PK_TEXT,
    PK_LIST,
    PK_DICT
} pk_kind;

#define PK_NONE UINT32_MAX /* no value */

/* A Python value. The items of a list or dict are a linked list of cells. In a dict, keys and
 * values alternate. */
typedef struct {
    pk_kind kind;
    uint32_t first, last; /* cells of a container; PK_NONE if it is empty */
    union {
        int64_t i;
        uint64_t u;
        double d;
        struct {
            uint32_t at, len; /* position of the text in the pickle */
        } text;
    };
} pk_value;

typedef struct {
    uint32_t value, next;
} pk_cell;

typedef struct {
    mrd_bytes data;
    size_t at;     /* offset of the next byte */
    size_t opcode; /* offset of the current opcode */
    const char *name;
    pk_value *values;
    size_t n_values, cap_values;
    pk_cell *cells;
    size_t n_cells, cap_cells;
    uint32_t *stack;
    /* memo[i] is the number of the value stored under memo index i, plus 1; 0 if nothing was
     * stored */
    uint32_t *memo;
    size_t n_stack, cap_stack, n_memo;
    size_t *marks; /* heights of the stack at the open marks */
    size_t n_marks, cap_marks;
    size_t memoized; /* number of MEMOIZE opcodes; each stores a value under the next memo index */
    mrd_buf *to;
    size_t start;   /* length of `to` in bytes before the JSON was appended */
    size_t written; /* values in the JSON */
    mrd_why *why;
} pickle;

static mrd_err
pk_fail(const pickle *p, mrd_err err, const char *what)
{
    return mrd_why_set(p->why, err, 0, "'%s': byte %zu: pickle opcode 0x%02x: %s", p->name,
                       p->opcode, p->opcode < p->data.len ? p->data.p[p->opcode] : 0u, what);
}

/* ---- Values, stack and memo ---- */

/* Returns the error for an array of n values that cannot grow. */
static mrd_err
pk_full(const pickle *p, size_t n)
{
    return n >= MRD_PICKLE_VALUES ? pk_fail(p, MRD_LIMIT, "too many values")
                                  : pk_fail(p, MRD_NOMEM, "out of memory");
}

static mrd_err
pk_push(pickle *p, uint32_t value)
{
    if (!MRD_VEC_ROOM_MAX(p->stack, p->n_stack, p->cap_stack, 1, MRD_PICKLE_VALUES))
        return pk_full(p, p->n_stack);
    p->stack[p->n_stack++] = value;
    return MRD_OK;
}

static mrd_err
pk_new(pickle *p, pk_value value)
{
    if (!MRD_VEC_ROOM_MAX(p->values, p->n_values, p->cap_values, 1, MRD_PICKLE_VALUES))
        return pk_full(p, p->n_values);
    value.first = value.last = PK_NONE;
    p->values[p->n_values] = value;
    return pk_push(p, (uint32_t) p->n_values++);
}

static mrd_err
pk_add(pickle *p, uint32_t container, uint32_t value)
{
    pk_value *to = &p->values[container];

    if (!MRD_VEC_ROOM_MAX(p->cells, p->n_cells, p->cap_cells, 1, MRD_PICKLE_VALUES))
        return pk_full(p, p->n_cells);
    p->cells[p->n_cells] = (pk_cell){ value, PK_NONE };
    if (to->first == PK_NONE)
        to->first = (uint32_t) p->n_cells;
    else
        p->cells[to->last].next = (uint32_t) p->n_cells;
    to->last = (uint32_t) p->n_cells++;
    return MRD_OK;
}

/* Returns true if at least `n` values are on the stack above the last mark. */
static bool
pk_has(const pickle *p, size_t n)
{
    return p->n_stack >= n + (p->n_marks > 0 ? p->marks[p->n_marks - 1] : 0);
}

/* Adds the values from stack position `from` on to the container, and removes them. */
static mrd_err
pk_fill(pickle *p, uint32_t container, size_t from)
{
    mrd_err err = MRD_OK;

    if (p->values[container].kind == PK_DICT && (p->n_stack - from) % 2 != 0)
        return pk_fail(p, MRD_CORRUPT, "a key without a value");
    for (size_t i = from; i < p->n_stack && err == MRD_OK; i++)
        err = pk_add(p, container, p->stack[i]);
    p->n_stack = from;
    return err;
}

/* Builds a container from the values from stack position `from` on. */
static mrd_err
pk_build(pickle *p, pk_kind kind, size_t from)
{
    mrd_err err = pk_new(p, (pk_value){ .kind = kind });
    uint32_t container;

    if (err != MRD_OK)
        return err;
    container = p->stack[--p->n_stack];
    err = pk_fill(p, container, from);
    return err == MRD_OK ? pk_push(p, container) : err;
}

/* Adds the values from stack position `from` on to the container below them. */
static mrd_err
pk_extend(pickle *p, pk_kind kind, size_t from)
{
    if (from == 0 || p->values[p->stack[from - 1]].kind != kind)
        return pk_fail(p, MRD_CORRUPT, "the container for its items is missing");
    return pk_fill(p, p->stack[from - 1], from);
}

static mrd_err
pk_store(pickle *p, uint64_t index)
{
    if (!pk_has(p, 1))
        return pk_fail(p, MRD_CORRUPT, "nothing to remember");
    if (index >= MRD_PICKLE_VALUES)
        return pk_fail(p, MRD_LIMIT, "too many values");
    if (!MRD_VEC_REACH(p->memo, p->n_memo, index))
        return pk_fail(p, MRD_NOMEM, "out of memory");
    p->memo[index] = p->stack[p->n_stack - 1] + 1;
    return MRD_OK;
}

static mrd_err
pk_recall(pickle *p, uint64_t index)
{
    if (index >= p->n_memo || p->memo[index] == 0)
        return pk_fail(p, MRD_CORRUPT, "nothing was remembered at this index");
    return pk_push(p, p->memo[index] - 1);
}

/* ---- Opcodes ---- */

/* Reads a little-endian number of n <= 8 bytes. */
static mrd_err
pk_number(pickle *p, size_t n, uint64_t *ret)
{
    if (p->data.len - p->at < n)
        return pk_fail(p, MRD_TRUNCATED, "the file ends");
    *ret = 0;
    for (size_t i = 0; i < n; i++)
        *ret |= (uint64_t) p->data.p[p->at + i] << (8 * i);
    p->at += n;
    return MRD_OK;
}

/* Reads a text. A number of n bytes before it is its length. */
static mrd_err
pk_text(pickle *p, size_t n)
{
    pk_value value = { .kind = PK_TEXT };
    uint64_t len;
    mrd_err err = pk_number(p, n, &len);

    if (err != MRD_OK)
        return err;
    if (len > p->data.len - p->at)
        return pk_fail(p, MRD_TRUNCATED, "a text is longer than the file");
    value.text.at = (uint32_t) p->at;
    value.text.len = (uint32_t) len;
    p->at += len;
    return pk_new(p, value);
}

/* Reads an integer of n bytes in two's complement. */
static mrd_err
pk_long(pickle *p, size_t n)
{
    pk_value value = { .kind = PK_INT };
    bool negative = n > 0 && p->data.len - p->at >= n && p->data.p[p->at + n - 1] >= 0x80;
    uint64_t bits = 0, top = 0;
    mrd_err err;

    if (n > 9)
        return pk_fail(p, MRD_LIMIT, "an int of more than 64 bits");
    if ((err = pk_number(p, n < 8 ? n : 8, &bits)) != MRD_OK ||
        (n == 9 && (err = pk_number(p, 1, &top)) != MRD_OK))
        return err;
    if (n == 9 && top != 0)
        return pk_fail(p, MRD_LIMIT, "an int of more than 64 bits");
    if (n < 8 && negative)
        bits |= UINT64_MAX << (8 * n);
    if (n == 9) {
        value.kind = PK_UINT;
        value.u = bits;
    } else {
        value.i = (int64_t) bits;
    }
    return pk_new(p, value);
}

static mrd_err
pk_real(pickle *p)
{
    pk_value value = { .kind = PK_REAL };
    uint64_t bits;
    mrd_err err = pk_number(p, 8, &bits);

    if (err != MRD_OK)
        return err;
    bits = __builtin_bswap64(bits); /* floats are big-endian */
    memcpy(&value.d, &bits, sizeof(value.d));
    return pk_new(p, value);
}

static mrd_err
pk_mark(pickle *p)
{
    if (!MRD_VEC_ROOM_MAX(p->marks, p->n_marks, p->cap_marks, 1, MRD_PICKLE_VALUES))
        return pk_full(p, p->n_marks);
    p->marks[p->n_marks++] = p->n_stack;
    return MRD_OK;
}

/* Executes an opcode that takes the values above the last mark. */
static mrd_err
pk_marked(pickle *p, uint8_t opcode)
{
    size_t from;

    if (p->n_marks == 0)
        return pk_fail(p, MRD_CORRUPT, "no mark");
    from = p->marks[--p->n_marks];
    switch (opcode) {
    case 't':
    case 'l':
        return pk_build(p, PK_LIST, from);
    case 'd':
        return pk_build(p, PK_DICT, from);
    case 'e':
        return pk_extend(p, PK_LIST, from);
    case 'u':
        return pk_extend(p, PK_DICT, from);
    default:
        p->n_stack = from; /* POP_MARK */
        return MRD_OK;
    }
}

/* Executes an opcode that takes the last `n` values of the stack. */
static mrd_err
pk_taking(pickle *p, uint8_t opcode, size_t n)
{
    if (!pk_has(p, n))
        return pk_fail(p, MRD_CORRUPT, "too few values");
    switch (opcode) {
    case 'a':
        return pk_extend(p, PK_LIST, p->n_stack - 1);
    case 's':
        return pk_extend(p, PK_DICT, p->n_stack - 2);
    case '0':
        p->n_stack--;
        return MRD_OK;
    case '2':
        return pk_push(p, p->stack[p->n_stack - 1]);
    default:
        return pk_build(p, PK_LIST, p->n_stack - n);
    }
}

/* Executes an opcode with a number of `size` bytes as argument. */
static mrd_err
pk_indexed(pickle *p, uint8_t opcode, size_t size)
{
    uint64_t number;
    mrd_err err = pk_number(p, size, &number);

    if (err != MRD_OK)
        return err;
    switch (opcode) {
    case 'K':
    case 'M':
        return pk_new(p, (pk_value){ .kind = PK_INT, .i = (int64_t) number });
    case 0x8a:
        return pk_long(p, (size_t) number);
    case 'h':
    case 'j':
        return pk_recall(p, number);
    case 'q':
    case 'r':
        return pk_store(p, number);
    default:
        return MRD_OK; /* no effect: the version of the protocol, or the length of a frame */
    }
}

static mrd_err
pk_execute(pickle *p, uint8_t opcode)
{
    switch (opcode) {
    case 0x80: /* PROTO */
    case 'K':  /* BININT1 */
    case 0x8a: /* LONG1 */
    case 'h':  /* BINGET */
    case 'q':  /* BINPUT */
        return pk_indexed(p, opcode, 1);
    case 'M': /* BININT2 */
        return pk_indexed(p, opcode, 2);
    case 'j': /* LONG_BINGET */
    case 'r': /* LONG_BINPUT */
        return pk_indexed(p, opcode, 4);
    case 0x95: /* FRAME */
        return pk_indexed(p, opcode, 8);
    case 0x94: /* MEMOIZE */
        return pk_store(p, p->memoized++);
    case 'J': /* BININT */
        return pk_long(p, 4);
    case 'G': /* BINFLOAT */
        return pk_real(p);
    case 0x8c: /* SHORT_BINUNICODE */
    case 'C':  /* SHORT_BINBYTES */
    case 'U':  /* SHORT_BINSTRING */
        return pk_text(p, 1);
    case 'X': /* BINUNICODE */
    case 'B': /* BINBYTES */
    case 'T': /* BINSTRING */
        return pk_text(p, 4);
    case 0x8d: /* BINUNICODE8 */
    case 0x8e: /* BINBYTES8 */
        return pk_text(p, 8);
    case 'N':
        return pk_new(p, (pk_value){ .kind = PK_NULL });
    case 0x88: /* NEWTRUE */
        return pk_new(p, (pk_value){ .kind = PK_TRUE });
    case 0x89: /* NEWFALSE */
        return pk_new(p, (pk_value){ .kind = PK_FALSE });
    case '}':
        return pk_new(p, (pk_value){ .kind = PK_DICT });
    case ']':
    case ')':
        return pk_new(p, (pk_value){ .kind = PK_LIST });
    case '(':
        return pk_mark(p);
    case 't': /* TUPLE */
    case 'l': /* LIST */
    case 'd': /* DICT */
    case 'e': /* APPENDS */
    case 'u': /* SETITEMS */
    case '1': /* POP_MARK */
        return pk_marked(p, opcode);
    case 0x85: /* TUPLE1 */
    case 'a':  /* APPEND */
    case '0':  /* POP */
    case '2':  /* DUP */
        return pk_taking(p, opcode, 1);
    case 0x86: /* TUPLE2 */
    case 's':  /* SETITEM */
        return pk_taking(p, opcode, 2);
    case 0x87: /* TUPLE3 */
        return pk_taking(p, opcode, 3);
    default:
        return pk_fail(p, MRD_UNSUPPORTED, "only plain data is read, no objects or calls");
    }
}

/* ---- JSON ---- */

static mrd_err pk_write(pickle *p, uint32_t at, unsigned depth);

static mrd_err
pk_write_key(pickle *p, uint32_t at)
{
    const pk_value *key = &p->values[at];

    if (key->kind == PK_TEXT)
        return pk_write(p, at, 0);
    if (key->kind != PK_INT)
        return pk_fail(p, MRD_UNSUPPORTED, "a key that is neither text nor int");
    mrd_buf_fmt(p->to, "\"%" PRId64 "\"", key->i);
    return MRD_OK;
}

static mrd_err
pk_write_items(pickle *p, const pk_value *value, unsigned depth)
{
    bool is_dict = value->kind == PK_DICT;
    mrd_err err = MRD_OK;

    if (depth == 0)
        return pk_fail(p, MRD_DEPTH, "containers are nested too deeply");
    mrd_buf_byte(p->to, is_dict ? '{' : '[');
    for (uint32_t cell = value->first; cell != PK_NONE && err == MRD_OK;
         cell = p->cells[cell].next) {
        if (cell != value->first)
            mrd_buf_byte(p->to, ',');
        if (is_dict) {
            if ((err = pk_write_key(p, p->cells[cell].value)) != MRD_OK)
                break;
            mrd_buf_byte(p->to, ':');
            cell = p->cells[cell].next;
        }
        err = pk_write(p, p->cells[cell].value, depth - 1);
    }
    mrd_buf_byte(p->to, is_dict ? '}' : ']');
    return err;
}

/* Appends a value as JSON. `depth` is the maximum number of levels of nested values. */
static mrd_err
pk_write(pickle *p, uint32_t at, unsigned depth)
{
    const pk_value *value = &p->values[at];

    if (++p->written > MRD_PICKLE_VALUES || p->to->len - p->start > MRD_PICKLE_JSON)
        return pk_fail(p, MRD_LIMIT, "too many values");
    if (p->to->err != MRD_OK)
        return pk_fail(p, p->to->err, "out of memory");
    switch (value->kind) {
    case PK_NULL:
        mrd_buf_text(p->to, "null");
        break;
    case PK_FALSE:
        mrd_buf_text(p->to, "false");
        break;
    case PK_TRUE:
        mrd_buf_text(p->to, "true");
        break;
    case PK_INT:
        mrd_buf_i64(p->to, value->i);
        break;
    case PK_UINT:
        mrd_buf_u64(p->to, value->u);
        break;
    case PK_REAL:
        if (isfinite(value->d))
            mrd_buf_fmt(p->to, "%.17g", value->d);
        else
            mrd_buf_text(p->to, "null");
        break;
    case PK_TEXT:
        mrd_json_quote(p->to,
                       (mrd_str){ (const char *) p->data.p + value->text.at, value->text.len });
        break;
    case PK_LIST:
    case PK_DICT:
        return pk_write_items(p, value, depth);
    }
    return MRD_OK;
}

bool
mrd_pickle_starts(mrd_bytes data)
{
    return data.len > 2 && data.p[0] == 0x80 && data.p[1] >= 2 && data.p[1] <= 5;
}

mrd_err
mrd_pickle_json(mrd_bytes data, const char *name, mrd_buf *to, mrd_why *why)
{
    pickle p = { .data = data, .name = name, .to = to, .start = to->len, .why = why };
    mrd_err err = MRD_OK;
    bool done = false;

    if (data.len > UINT32_MAX)
        return pk_fail(&p, MRD_LIMIT, "a file of more than 4 GiB");
    if (!mrd_pickle_starts(data))
        err = pk_fail(&p, MRD_UNSUPPORTED, "not a pickle of protocol 2 to 5");
    while (err == MRD_OK && !done) {
        p.opcode = p.at;
        if (p.at == data.len)
            err = pk_fail(&p, MRD_TRUNCATED, "the file ends without STOP");
        else if (data.p[p.at] == '.')
            done = true;
        else
            err = pk_execute(&p, data.p[p.at++]);
    }
    if (err == MRD_OK && (p.n_stack != 1 || p.n_marks != 0))
        err = pk_fail(&p, MRD_CORRUPT, "not exactly one value");
    if (err == MRD_OK)
        err = pk_write(&p, p.stack[0], MRD_PICKLE_DEPTH);
    if (err == MRD_OK && to->err != MRD_OK)
        err = pk_fail(&p, to->err, "out of memory");
    free(p.values);
    free(p.cells);
    free(p.stack);
    free(p.memo);
    free(p.marks);
    return err;
}
