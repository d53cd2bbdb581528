/*
 * proto/session_params.h - what a session is asked for, from the command line over HTTP, manifest
 * and wire to the agents: one struct and one table (session_params.def) for all of them.
 *
 *   kind    in C           in JSON                          on the wire, as a label
 *   TEXT    char *, owned  text or a number                 the text
 *   CHOICE  int, index     one of the words                 the word
 *   BOOL    bool           true, false                      0, 1
 *   DUR     mrd_dur_ns     "30s" or ns; manifest: ns        ns
 *   SIZE    int64_t        bytes, or a number               the same
 *   LIST    mrd_strlist    list of words                    a label for each
 * With `field` it is that field of the message Control instead. What is not said has its default;
 * agents ignore labels that they do not know: they are of a newer aggregator.
 * Threads: stateless.
 */
#ifndef MRD_PROTO_SESSION_PARAMS_H
#define MRD_PROTO_SESSION_PARAMS_H

#include "base/clock.h"
#include "base/json.h"
#include "proto/meridian.pb-c.h"

#define MRD_PARAM_WORDS_MAX 64  /* of a list */
#define MRD_PARAM_WORD_MAX  191 /* bytes of one */

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

/* Which events of which nodes; all lists empty: everything. */
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

/* Indices of the choices, as in the table. */
enum { MRD_MODE_STREAM, MRD_MODE_RECORDER };
enum { MRD_PROFILES_NONE, MRD_PROFILES_MODEL, MRD_PROFILES_CONTINUOUS, MRD_PROFILES_ON_FAIL };

/* ---- The table ---- */

typedef enum {
    MRD_PARAM_TEXT,
    MRD_PARAM_CHOICE,
    MRD_PARAM_BOOL,
    MRD_PARAM_DUR,
    MRD_PARAM_SIZE,
    MRD_PARAM_LIST,
} mrd_param_kind;

enum { MRD_PARAM_START = 1, MRD_PARAM_RECORD = 2 }; /* commands that have the option */

typedef enum { MRD_PARAM_ANY, MRD_PARAM_NODES /* "all", "any" or a number */ } mrd_param_check;

#define MRD_PARAM_FIELD(field) (offsetof(Mrd__Control, field) + 1)
#define MRD_PARAM_OF(ident)    (offsetof(mrd_session_params, ident) + 1)

typedef struct {
    mrd_param_kind kind;
    size_t offset;                  /* in mrd_session_params */
    const char *request, *manifest; /* members of JSON objects */
    const char *option;             /* without dashes */
    char letter;                    /* 0: none */
    unsigned commands;
    const char *def;  /* as text; NULL: an empty list */
    int64_t min, max; /* DUR, SIZE: range; TEXT: bytes; LIST: words. A default
                       * outside of it means that it was not asked for: no request says it */
    const char *arg;  /* of the option; CHOICE: the words */
    mrd_param_check check;
    const char *help;
    const char *label; /* its key among the options of Control; NULL: none */
    size_t field;      /* MRD_PARAM_FIELD; 0: none */
    size_t with;       /* MRD_PARAM_OF a list without which it says nothing; 0: none */
    bool sparse;       /* not in the manifest when it is the default */
} mrd_session_param;

extern const mrd_session_param mrd_session_param_table[MRD_SESSION_PARAMS];

typedef struct {
    const char *key, *option, *arg, *help;
    size_t offset; /* in mrd_select */
} mrd_select_row;

extern const mrd_select_row mrd_select_table[];
extern const size_t mrd_select_rows;

/* How many of them are numbers on the wire. */
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

/* ---- Values ---- */

/* Everything as its default says. Errors: NOMEM; it is to be freed all the same. */
mrd_err mrd_session_params_init(mrd_session_params *p);
/* All but texts and lists, which are left as they are: empty, a text is its default. */
void mrd_session_params_init_numbers(mrd_session_params *p);
void mrd_session_params_fini(mrd_session_params *p); /* zeroes it */
/* to: zeroed. Errors: NOMEM; it is to be freed all the same. */
mrd_err mrd_session_params_copy(mrd_session_params *to, const mrd_session_params *from);
/* What does not go together is refused: INVALID with a message that names the members. */
mrd_err mrd_session_params_check(const mrd_session_params *p, mrd_why *why);
/* Whether the runtimes are asked for captures of their own. */
bool mrd_session_params_ask_runtime(const mrd_session_params *p);
/* The number by which runtimes tag what they write for the session: 1 to 2^31 - 1. */
static inline int32_t
mrd_session_tag(uint64_t session)
{
    return (session & INT32_MAX) == 0 ? 1 : (int32_t) (session & INT32_MAX);
}
/* Sets one from its text, as an option would; for programs that make requests. Errors: INVALID,
 * RANGE, LIMIT, NOMEM. */
mrd_err mrd_session_params_set(mrd_session_params *p, const char *request, const char *text,
                               mrd_why *why);

/* The word of a choice; "" for one that is none. Returns text. */
#define MRD_PARAM_WORD_TEXT 24
const char *mrd_session_param_word(const mrd_session_param *row, int choice,
                                   char text[MRD_PARAM_WORD_TEXT]);

/* The least that an option takes: its default may lie below the range of a request. */
int64_t mrd_session_param_min(const mrd_session_param *row);

/* ---- JSON ---- */

/* From the body of a request; members that are no parameters are the caller's. Errors: TYPE,
 * INVALID, RANGE, LIMIT, NOMEM with a message that names the member. */
mrd_err mrd_session_params_from_json(mrd_session_params *p, const mrd_json *body, mrd_why *why);
/* The members of a request, without those that have their default. */
void mrd_session_params_put_json(const mrd_session_params *p, mrd_json *body);
/* From a manifest: a member that is missing or wrong keeps its default. */
void mrd_session_params_from_manifest(mrd_session_params *p, const mrd_json *manifest);
void mrd_session_params_put_manifest(const mrd_session_params *p, mrd_json *manifest);

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

/* Room for what a Control points to. Points into itself: not to be copied. */
typedef struct {
    Mrd__Label labels[MRD_SESSION_LABELS], *list[MRD_SESSION_LABELS];
    char numbers[MRD_SESSION_PARAMS][MRD_PARAM_WORD_TEXT];
} mrd_session_labels;

/* `to` borrows from both. */
void mrd_session_params_put_wire(const mrd_session_params *p, mrd_session_labels *room,
                                 Mrd__Control *to);
/* Errors: INVALID, RANGE, LIMIT; UNSUPPORTED (a word that this release does not know); NOMEM. */
mrd_err mrd_session_params_from_wire(mrd_session_params *p, const Mrd__Control *from, mrd_why *why);

#endif
