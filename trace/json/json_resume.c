/* mrd_json_resume: finds the next record after damaged text. */
#include <string.h>

#include "trace/json/json_read_int.h"

#define JR_LOOK 4096 /* maximum of blanks between two brackets that belong together */

static bool
is_blank(int c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Returns the byte at r->p + n, which stays in the window. 0 at the end of the input and after
 * errors. */
static char
byte_at(mrd_json_reader *r, size_t n)
{
    while ((size_t) (r->end - r->p) <= n && mrd_jr_more(r, r->p))
        ;
    return (size_t) (r->end - r->p) <= n ? '\0' : r->p[n];
}

/* Returns the next byte after r->p + *n that is not blank, and sets *n to its distance. */
static char
byte_behind(mrd_json_reader *r, size_t *n)
{
    char c;

    while (is_blank(c = byte_at(r, ++*n)) && *n < JR_LOOK)
        ;
    return c;
}

/* Returns true if r->p is the '{' of an object that is empty or begins with a key. */
static bool
is_record(mrd_json_reader *r)
{
    size_t n = 0;
    char c = byte_behind(r, &n);

    return c == '"' || c == '}';
}

/* Returns true if a document begins at r->p, with the same bytes as the first one. */
static bool
is_other(mrd_json_reader *r)
{
    return r->head_len > 0 && *r->p == r->head[0] && byte_at(r, r->head_len) != '\0' &&
           memcmp(r->p, r->head, r->head_len) == 0;
}

typedef enum { FOUND_NOTHING, FOUND_RECORD, FOUND_END, FOUND_OTHER } found;

/* Moves r->p to the next record, end or document. `before` is the last byte before r->p that is not
 * a space, or 0 if unknown. */
static found
find_record(mrd_json_reader *r, char before, bool in_array)
{
    for (;; r->p++) {
        char c = byte_at(r, 0);

        if (r->p == r->end)
            return FOUND_NOTHING;
        /* programs that write records usually begin each on a new line */
        if (c == '\n' && before != ':')
            before = ',';
        if (is_blank(c))
            continue;
        if (in_array && is_other(r))
            return FOUND_OTHER;
        if (c == '{' && before != '\0' && strchr(",[]}", before) != NULL && is_record(r))
            return FOUND_RECORD;
        if (c == ']' && before == '}' && in_array)
            return FOUND_END;
        before = c == '\0' ? ' ' : c;
    }
}

/* Clears the error and begins the search, inside the damaged record if it is still in the
 * window. */
static found
search(mrd_json_reader *r, bool in_record, bool in_array)
{
    uint64_t at = mrd_jr_offset(r, r->p);
    char before = in_record ? '\0' : ',';

    if (in_record && r->mark != NULL && r->mark_at >= r->tried) {
        r->p = r->mark + 1;
        before = '{';
    }
    r->tried = at; /* so that each byte is searched at most twice */
    r->mark = r->raw = NULL;
    r->key_live = false;
    r->pending = 0;
    r->why.err = MRD_OK;
    return find_record(r, before, in_array);
}

/* Sets the reader to continue at the record or bracket at r->p. */
static void
stand_at(mrd_json_reader *r, unsigned depth)
{
    r->depth = depth;
    r->first = true;
    r->loose = r->many = r->loose || depth == 0;
}

bool
mrd_json_resume(mrd_json_reader *r, unsigned depth, mrd_json_damage *ret_damage)
{
    bool in_record = r->depth > depth && r->mark_depth == depth;
    bool in_array = r->stack[depth] == '[', resumes;    /* stack[0] is 0 */
    bool is_again = in_record && r->mark_at < r->tried; /* it was found inside a damaged record */
    uint64_t from = in_record ? r->mark_at : mrd_jr_offset(r, r->p);
    mrd_why damage = r->why;
    found what = FOUND_NOTHING;

    if (damage.err == MRD_SYNTAX || damage.err == MRD_DEPTH || damage.err == MRD_LIMIT)
        what = search(r, in_record, in_array);
    if (what == FOUND_OTHER) {
        mrd_why_set(&damage, MRD_CORRUPT, 0,
                    "%s; behind it another document begins, as when two programs write into one "
                    "file: the rest is not read",
                    r->why.text);
        do
            r->p = r->end;
        while (mrd_jr_more(r, r->end));
    }
    resumes = what == FOUND_RECORD || what == FOUND_END;
    ret_damage->why = damage;
    ret_damage->skipped = mrd_jr_offset(r, r->p) - from;
    ret_damage->records = in_record ? !is_again : resumes && ret_damage->skipped > 0;
    if (resumes)
        stand_at(r, in_array ? depth : 0);
    /* otherwise the search reached the end of the decompressible data */
    else if (r->why.err == MRD_OK)
        r->why = damage;
    return resumes;
}
