/*
 * trace/json/args.h - collects the typed arguments of one event while its JSON is read.
 *
 * An integer becomes INT, or UINT if it is above 2^63-1. Other numbers become DOUBLE. A number that
 * fits no type, null, an object or an array keeps its JSON text. A word such as NaN becomes a
 * string. A string is interned (STR) if the values of its key repeat. Long strings, and strings of
 * keys with values that hardly repeat, become TEXT, so that the string table stays small.
 * Limits: MRD_ARGS_MAX arguments and MRD_ARGS_TEXT bytes of text per event, MRD_ARGS_JSON bytes per
 * object or array. Arguments beyond a limit are left out. The argument MRD_ARGS_CUT_KEY has their
 * number. Threads: belongs to one thread.
 */
#ifndef MRD_TRACE_ARGS_H
#define MRD_TRACE_ARGS_H

#include "trace/json/json_read.h"
#include "trace/model/event.h"

#define MRD_ARGS_MAX  4096u
#define MRD_ARGS_TEXT (8u << 20)
#define MRD_ARGS_JSON (1u << 20)
/* maximum length of an interned string in bytes; longer strings become TEXT */
#define MRD_ARGS_REPEAT  128u
#define MRD_ARGS_CUT_KEY "meridian.args_cut"

typedef struct mrd_args mrd_args;

/* Creates a collector. Borrows the table, to which keys and repeated strings are added. NULL if out
 * of memory. */
mrd_args *mrd_args_new(mrd_strtab *strings);
void mrd_args_free(mrd_args *args);
void mrd_args_reset(mrd_args *args);

/* Interns a text as mrd_strtab_add() does. It has a cache, so it is faster for texts that repeat,
 * such as keys, names and categories. */
mrd_sid mrd_args_key(mrd_args *args, mrd_str text);

void mrd_args_int(mrd_args *args, mrd_sid key, int64_t v);
/* adds INT if v fits, otherwise UINT */
void mrd_args_uint(mrd_args *args, mrd_sid key, uint64_t v);
/* a value that is not finite becomes a string */
void mrd_args_double(mrd_args *args, mrd_sid key, double v);
void mrd_args_bool(mrd_args *args, mrd_sid key, bool v);
void mrd_args_sid(mrd_args *args, mrd_sid key, mrd_sid sid);
/* adds STR if the string repeats and is short, otherwise TEXT */
void mrd_args_str(mrd_args *args, mrd_sid key, mrd_str str);
/* Adds the text of a JSON container unchanged. The text must be valid UTF-8. */
void mrd_args_json(mrd_args *args, mrd_sid key, mrd_str str);
/*
 * Adds the value that mrd_json_next() has just returned, with its type and text. Skips an object or
 * array and keeps its text. Errors: errors of the reader.
 */
mrd_err mrd_args_value(mrd_args *args, mrd_sid key, mrd_json_reader *reader, mrd_jr_type type,
                       mrd_str text);

/* Returns the collected arguments. They are borrowed until the next call that adds or resets
 * arguments. Check mrd_args_err() for failures. */
const mrd_arg *mrd_args_view(mrd_args *args, size_t *ret_n);
/* Returns the first argument with this key, or NULL if there is none. Borrowed until the next call
 * that adds or resets. */
const mrd_arg *mrd_args_find(mrd_args *args, mrd_sid key);
/* Returns NOMEM if memory ran out since the last reset, otherwise MRD_OK. */
mrd_err mrd_args_err(const mrd_args *args);

#endif
