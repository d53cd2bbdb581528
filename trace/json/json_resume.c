/* trace/json/json_resume.c - implements mrd_json_resume(), which finds the next record after
 * damaged text. */
#include <string.h>

#include "trace/json/json_read_int.h"

/* maximum number of blanks between the '{' of a record and its first key */
#define JR_LOOK 4096

static bool
is_blank(int c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Returns the byte at reader->p + n, and loads more input if needed. Returns 0 at the end of the
 * input and on errors. */
static char
byte_at(mrd_json_reader *reader, size_t n)
{
    while ((size_t) (reader->end - reader->p) <= n && mrd_jr_more(reader, reader->p))
        ;
    return (size_t) (reader->end - reader->p) <= n ? '\0' : reader->p[n];
}

/* Returns the next byte after reader->p + *n that is not blank. Sets *n to its offset from
 * reader->p. */
static char
byte_behind(mrd_json_reader *reader, size_t *n)
{
    char c;

    while (is_blank(c = byte_at(reader, ++*n)) && *n < JR_LOOK)
        ;
    return c;
}

/* Returns true if the '{' at reader->p begins an object: it is empty or has a key. */
static bool
is_record(mrd_json_reader *reader)
{
    size_t n = 0;
    char c = byte_behind(reader, &n);

    return c == '"' || c == '}';
}

/* Returns true if another document begins at reader->p: its first bytes are those of the first
 * document. */
static bool
is_other(mrd_json_reader *reader)
{
    return reader->head_len > 0 && *reader->p == reader->head[0] &&
           byte_at(reader, reader->head_len) != '\0' &&
           memcmp(reader->p, reader->head, reader->head_len) == 0;
}

typedef enum { FOUND_NOTHING, FOUND_RECORD, FOUND_END, FOUND_OTHER } found;

/* Moves reader->p forward to the next record, the end of the array, or the begin of another
 * document. `before` is the previous byte that is not blank; 0 if unknown. */
static found
find_record(mrd_json_reader *reader, char before, bool in_array)
{
    for (;; reader->p++) {
        char c = byte_at(reader, 0);

        if (reader->p == reader->end)
            return FOUND_NOTHING;
        /* Writers usually begin each record on a new line. So a line end counts as a comma. */
        if (c == '\n' && before != ':')
            before = ',';
        if (is_blank(c))
            continue;
        if (in_array && is_other(reader))
            return FOUND_OTHER;
        if (c == '{' && before != '\0' && strchr(",[]}", before) != NULL && is_record(reader))
            return FOUND_RECORD;
        if (c == ']' && before == '}' && in_array)
            return FOUND_END;
        before = c == '\0' ? ' ' : c;
    }
}

/* Clears the error and searches for the next record. The search begins inside the damaged record if
 * that is still in the window, because the damage may have hidden the begin of another record. */
static found
search(mrd_json_reader *reader, bool in_record, bool in_array)
{
    uint64_t at = mrd_jr_offset(reader, reader->p);
    char before = in_record ? '\0' : ',';

    if (in_record && reader->mark != NULL && reader->mark_at >= reader->tried) {
        reader->p = reader->mark + 1;
        before = '{';
    }
    /* Records marked before this offset are not searched again, so that no byte is searched more
     * than twice. */
    reader->tried = at;
    reader->mark = reader->raw = NULL;
    reader->key_live = false;
    reader->pending = 0;
    reader->why.err = MRD_OK;
    return find_record(reader, before, in_array);
}

/* Lets the reader continue at reader->p, in the container at `depth`. */
static void
stand_at(mrd_json_reader *reader, unsigned depth)
{
    reader->depth = depth;
    reader->first = true;
    reader->loose = reader->many = reader->loose || depth == 0;
}

bool
mrd_json_resume(mrd_json_reader *reader, unsigned depth, mrd_json_damage *ret_damage)
{
    bool in_record = reader->depth > depth && reader->mark_depth == depth;
    /* stack[0] is not a bracket but 0, because the top level is no array */
    bool in_array = reader->stack[depth] == '[', resumes;
    /* this record lies inside an earlier damaged record, which is already counted */
    bool is_again = in_record && reader->mark_at < reader->tried;
    uint64_t from = in_record ? reader->mark_at : mrd_jr_offset(reader, reader->p);
    mrd_why damage = reader->why;
    found what = FOUND_NOTHING;

    if (damage.err == MRD_SYNTAX || damage.err == MRD_DEPTH || damage.err == MRD_LIMIT)
        what = search(reader, in_record, in_array);
    if (what == FOUND_OTHER) {
        mrd_why_set(&damage, MRD_CORRUPT, 0,
                    "%s; behind it another document begins, as when two programs write into one "
                    "file: the rest is not read",
                    reader->why.text);
        do
            reader->p = reader->end;
        while (mrd_jr_more(reader, reader->end));
    }
    resumes = what == FOUND_RECORD || what == FOUND_END;
    ret_damage->why = damage;
    ret_damage->skipped = mrd_jr_offset(reader, reader->p) - from;
    ret_damage->records = in_record ? !is_again : resumes && ret_damage->skipped > 0;
    if (resumes)
        stand_at(reader, in_array ? depth : 0);
    /* No record was found. Restore the original error, unless reading failed in the meantime. */
    else if (reader->why.err == MRD_OK)
        reader->why = damage;
    return resumes;
}
