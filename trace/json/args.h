/*
 * trace/json/args.h - collects the typed arguments of one event while its JSON is read
 *
 * Numbers without fraction and exponent become INT, above 2^63-1 UINT, both exact. Other numbers
 * become DOUBLE. Numbers that fit neither, null, objects and arrays keep their JSON text. A
 * non-finite word becomes a string. Strings are interned (STR) while the values of their key
 * repeat. Long or hardly repeating strings become TEXT, so that the string table stays small.
 * Limits: MRD_ARGS_MAX arguments and MRD_ARGS_TEXT bytes of text per event, MRD_ARGS_JSON bytes per
 * container. Arguments beyond a limit are counted in `cut`, and the argument MRD_ARGS_CUT_KEY has
 * their number. Threads: belongs to one thread.
 */
#ifndef MRD_TRACE_ARGS_H
#define MRD_TRACE_ARGS_H

#include "trace/json/json_read.h"
#include "trace/model/event.h"

#define MRD_ARGS_MAX     4096u
#define MRD_ARGS_TEXT    (8u << 20)
#define MRD_ARGS_JSON    (1u << 20)
#define MRD_ARGS_REPEAT  128u /* bytes; longer strings are never interned */
#define MRD_ARGS_CUT_KEY "meridian.args_cut"

typedef struct mrd_args mrd_args;

/* Creates a collector. Borrows the table, to which keys and repeated strings are added. NULL if out
 * of memory. */
mrd_args *mrd_args_new(mrd_strtab *strings);
void mrd_args_free(mrd_args *args);
void mrd_args_reset(mrd_args *args);

/* Interns a text like mrd_strtab_add. Faster for recently used texts, so it suits texts that repeat
 * (keys, names, categories). */
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
 * Adds the value that mrd_json_next has just returned (its type and text). Containers are skipped,
 * and their text is kept. Errors: errors of the reader.
 */
mrd_err mrd_args_value(mrd_args *args, mrd_sid key, mrd_json_reader *reader, mrd_jr_type type,
                       mrd_str text);

/* Returns the collected arguments, borrowed until the next call that adds or resets. mrd_args_err
 * returns failures. */
const mrd_arg *mrd_args_view(mrd_args *args, size_t *ret_n);
/* Returns the first argument with this key, or NULL if there is none. Borrowed until the next call
 * that adds or resets. */
const mrd_arg *mrd_args_find(mrd_args *args, mrd_sid key);
/* Returns NOMEM if memory ran out since the last reset, otherwise MRD_OK. */
mrd_err mrd_args_err(const mrd_args *args);

#endif
