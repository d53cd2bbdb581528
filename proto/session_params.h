/*
 * proto/session_params.h - the parameters of a session. One struct and one table
 * (session_params.def) serve the command line, HTTP, the manifest and the wire to the agents.
 *
 *   kind    in C           in JSON                          on the wire, as a label
 *   TEXT    char *, owned  text or a number                 the text
 *   CHOICE  int, index     one of the words                 the word
 *   BOOL    bool           true, false                      0, 1
 *   DUR     mrd_dur_ns     "30s" or ns; manifest: ns        ns
 *   SIZE    int64_t        bytes, or a number               the same
 *   LIST    mrd_strlist    list of words                    a label for each
 *
 * A row with `field` uses that field of the message Control instead of a label. Missing parameters
 * have their defaults. Agents ignore unknown labels, which come from newer aggregators. Any thread
 * may call these functions.
 */
#ifndef MRD_PROTO_SESSION_PARAMS_H
#define MRD_PROTO_SESSION_PARAMS_H

#include "base/clock.h"
#include "base/conf/json.h"
#include "proto/meridian.pb-c.h"

#define MRD_PARAM_WORDS_MAX 64  /* maximum number of words in a parameter of kind LIST */
#define MRD_PARAM_WORD_MAX  191 /* maximum bytes of a word in a parameter of kind LIST */

typedef char *mrd_param_TEXT;
typedef int mrd_param_CHOICE;
typedef bool mrd_param_BOOL;
typedef mrd_dur_ns mrd_param_DUR;
typedef int64_t mrd_param_SIZE;
typedef mrd_strlist mrd_param_LIST;

typedef struct {
#define MRD_PARAM(ident, kind, ...) mrd_param_##kind ident;
#include "proto/session_params.def"
#undef MRD_PARAM
} mrd_session_params;

/* Selects what a session records, for example nodes, jobs and types of events. If all lists are
 * empty, the session records everything. */
typedef struct {
#define MRD_SELECT(ident, ...) mrd_strlist ident;
#include "proto/session_params.def"
#undef MRD_SELECT
} mrd_select;

typedef struct {
    mrd_session_params params;
    mrd_select select;
} mrd_session_request;

enum {
#define MRD_PARAM(ident, ...) MRD_PARAM_INDEX_##ident,
#include "proto/session_params.def"
#undef MRD_PARAM
    MRD_SESSION_PARAMS
};

/* Values of the parameters of kind CHOICE, in the order of their words in session_params.def. */
enum { MRD_MODE_STREAM, MRD_MODE_RECORDER };
enum { MRD_PROFILES_NONE, MRD_PROFILES_MODEL, MRD_PROFILES_CONTINUOUS, MRD_PROFILES_ON_FAIL };

/* ---- The table of parameters ---- */

typedef enum {
    MRD_PARAM_TEXT,
    MRD_PARAM_CHOICE,
    MRD_PARAM_BOOL,
    MRD_PARAM_DUR,
    MRD_PARAM_SIZE,
    MRD_PARAM_LIST,
} mrd_param_kind;

/* bits of `commands`: the commands of `meridian` that have the option */
enum { MRD_PARAM_START = 1, MRD_PARAM_RECORD = 2 };

typedef enum { MRD_PARAM_ANY, MRD_PARAM_NODES /* "all", "any" or a number */ } mrd_param_check;

#define MRD_PARAM_FIELD(field) (offsetof(Mrd__Control, field) + 1)
#define MRD_PARAM_OF(ident)    (offsetof(mrd_session_params, ident) + 1)

typedef struct {
    mrd_param_kind kind;
    size_t offset;                  /* byte offset of the value in mrd_session_params */
    const char *request, *manifest; /* names of the member in JSON */
    const char *option;             /* long option, without dashes */
    char letter;                    /* short option, or 0 */
    unsigned commands;
    const char *def; /* default as text; NULL for an empty list */
    /* Range of a DUR or SIZE, maximum bytes of a TEXT, or maximum words of a LIST. A default
     * outside the range means "not set", and a request cannot contain it. */
    int64_t min, max;
    /* placeholder for the option's value in the help text; for a CHOICE, its words */
    const char *arg;
    mrd_param_check check;
    const char *help;
    /* key of the label in the message Control that carries the parameter, or NULL */
    const char *label;
    /* MRD_PARAM_FIELD of the member of Control that carries the parameter, or 0 */
    size_t field;
    /* MRD_PARAM_OF of a list, or 0. While that list is empty, this parameter has no effect. */
    size_t with;
    bool sparse; /* true: the manifest omits the parameter if it has its default */
} mrd_session_param;

extern const mrd_session_param mrd_session_param_table[MRD_SESSION_PARAMS];

typedef struct {
    const char *key, *option, *arg, *help;
    size_t offset; /* byte offset of the list in mrd_select */
} mrd_select_row;

extern const mrd_select_row mrd_select_table[];
extern const size_t mrd_select_rows;

/* Number of lists of mrd_select that have kind NUMBERS in session_params.def. */
enum {
    MRD_SELECT_NUMBER_LISTS = 0
#define MRD_SELECT_TEXTS_            +0
#define MRD_SELECT_NUMBERS_          +1
#define MRD_SELECT(ident, kind, ...) MRD_SELECT_##kind##_
#include "proto/session_params.def"
#undef MRD_SELECT
#undef MRD_SELECT_TEXTS_
#undef MRD_SELECT_NUMBERS_
};

/* ---- Values of the parameters ---- */

/* Sets all parameters to their defaults. Errors: NOMEM. The caller must free the struct even after
 * an error. */
mrd_err mrd_session_params_init(mrd_session_params *params);
/* Sets all parameters to their defaults, except those of kind TEXT and LIST. These must be empty,
 * and an empty TEXT means its default. */
void mrd_session_params_init_numbers(mrd_session_params *params);
/* frees the values and zeroes the struct */
void mrd_session_params_fini(mrd_session_params *params);
/* Copies to `to`, which must be zeroed. Errors: NOMEM. The caller must free `to` even after an
 * error. */
mrd_err mrd_session_params_copy(mrd_session_params *to, const mrd_session_params *from);
/* Checks that the parameters fit each other. Errors: INVALID, with a message that names the
 * members. */
mrd_err mrd_session_params_check(const mrd_session_params *params, mrd_why *why);
/* Returns whether the session requests that the Neuron runtimes of its processes write their own
 * captures. */
bool mrd_session_params_ask_runtime(const mrd_session_params *params);
/* Returns the number, 1 to 2^31 - 1, with which runtimes tag the files of a session. */
static inline int32_t
mrd_session_tag(uint64_t session)
{
    return (session & INT32_MAX) == 0 ? 1 : (int32_t) (session & INT32_MAX);
}
/* Sets one parameter from text, as an option of `meridian start` would. `request` is its name in a
 * request. This is for programs that send requests. Errors: INVALID, RANGE, LIMIT, NOMEM. */
mrd_err mrd_session_params_set(mrd_session_params *params, const char *request, const char *text,
                               mrd_why *why);

/* Returns the word of the value `choice`, or "" if there is no such value. */
#define MRD_PARAM_WORD_TEXT 24
const char *mrd_session_param_word(const mrd_session_param *row, int choice,
                                   char text[MRD_PARAM_WORD_TEXT]);

/* Returns the minimum that an option accepts: `min` of the row, or its default if that is lower. */
int64_t mrd_session_param_min(const mrd_session_param *row);

/* ---- JSON ---- */

/* Reads the parameters from the body of a request. Ignores other members, which the caller handles.
 * Errors: TYPE, INVALID, RANGE, LIMIT and NOMEM, with a message that names the member. */
mrd_err mrd_session_params_from_json(mrd_session_params *params, const mrd_json *body,
                                     mrd_why *why);
/* Adds all parameters that differ from their defaults to the body of a request. */
void mrd_session_params_put_json(const mrd_session_params *params, mrd_json *body);
/* Reads the parameters from a manifest. A parameter that is missing or invalid keeps its
 * default. */
void mrd_session_params_from_manifest(mrd_session_params *params, const mrd_json *manifest);
void mrd_session_params_put_manifest(const mrd_session_params *params, mrd_json *manifest);

/* ---- Wire ---- */

enum {
    MRD_SESSION_LABELS = 0
#define MRD_PARAM_TEXT_             +1
#define MRD_PARAM_CHOICE_           +1
#define MRD_PARAM_BOOL_             +1
#define MRD_PARAM_DUR_              +1
#define MRD_PARAM_SIZE_             +1
#define MRD_PARAM_LIST_             +MRD_PARAM_WORDS_MAX
#define MRD_PARAM(ident, kind, ...) MRD_PARAM_##kind##_
#include "proto/session_params.def"
#undef MRD_PARAM
#undef MRD_PARAM_TEXT_
#undef MRD_PARAM_CHOICE_
#undef MRD_PARAM_BOOL_
#undef MRD_PARAM_DUR_
#undef MRD_PARAM_SIZE_
#undef MRD_PARAM_LIST_
};

/* Memory for the labels and lists to which a Control points. The struct contains pointers into
 * itself, so do not copy it. */
typedef struct {
    Mrd__Label labels[MRD_SESSION_LABELS], *list[MRD_SESSION_LABELS];
    char numbers[MRD_SESSION_PARAMS][MRD_PARAM_WORD_TEXT];
} mrd_session_labels;

/* Stores the parameters in the message Control. `to` then points into `params` and `room`, which
 * must exist until `to` is no longer used. */
void mrd_session_params_put_wire(const mrd_session_params *params, mrd_session_labels *room,
                                 Mrd__Control *to);
/* Reads the parameters from the message Control. Errors: INVALID, RANGE, LIMIT, UNSUPPORTED (a word
 * that this release does not know), NOMEM. */
mrd_err mrd_session_params_from_wire(mrd_session_params *params, const Mrd__Control *from,
                                     mrd_why *why);

#endif
