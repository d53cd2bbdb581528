/*
 * trace/model/arg_keys.h - finds the string ids of the arguments in trace/model/arg_keys.def.
 * Threads: the rules of mrd_strtab apply.
 */
#ifndef MRD_TRACE_ARG_KEYS_H
#define MRD_TRACE_ARG_KEYS_H

#include "trace/model/strtab.h"

typedef enum {
#define MRD_ARG_COLUMN(ident, ...) MRD_KEY_##ident,
#define MRD_ARG_KEY(ident, ...)
#define MRD_ARG_ALSO(ident, ...)
#include "trace/model/arg_keys.def"
#undef MRD_ARG_COLUMN
#undef MRD_ARG_KEY
    /* number of the arguments that have a column in tables; they come first in this enum */
    MRD_ARG_COLUMNS,
    MRD_KEY_LAST_COLUMN = MRD_ARG_COLUMNS - 1,
#define MRD_ARG_COLUMN(ident, ...)
#define MRD_ARG_KEY(ident, ...) MRD_KEY_##ident,
#include "trace/model/arg_keys.def"
#undef MRD_ARG_COLUMN
#undef MRD_ARG_KEY
#undef MRD_ARG_ALSO
    MRD_ARG_KEYS
} mrd_arg_key;

/* The class of an argument in arg_keys.def. An argument with a column is an integer. */
typedef enum {
    MRD_ARG_CLASS_INT,
    MRD_ARG_CLASS_TEXT,
    /* number of a collective, counted since its communicator was created. So all members state the
     * same number, also if they began to record at different times. */
    MRD_ARG_CLASS_LASTING,
    /* number of a collective, counted since the process or the recording began. Equal numbers of
     * two members may therefore belong to different collectives. */
    MRD_ARG_CLASS_RESTARTING
} mrd_arg_class;

/* Returns the first spelling of the argument in arg_keys.def. */
const char *mrd_arg_key_text(mrd_arg_key key);
mrd_arg_class mrd_arg_key_class(mrd_arg_key key);
/* These functions return the string id of the argument's first spelling. _find returns
 * MRD_SID_EMPTY if the profile does not have this string. _add adds it. */
mrd_sid mrd_arg_key_find(const mrd_strtab *strings, mrd_arg_key key);
mrd_sid mrd_arg_key_add(mrd_strtab *strings, mrd_arg_key key);
/* For each spelling of an argument with a column, sets column_of[id] to the index of the column,
 * where id is the string id of the spelling. Other entries are not changed. `n` is the number of
 * entries. */
void mrd_arg_key_columns(const mrd_strtab *strings, uint8_t *column_of, size_t n);

#endif
