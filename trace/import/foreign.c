#include "trace/import/foreign.h"

#include <ctype.h>
#include <string.h>

#include "base/obj.h"

#define SAMPLES "which has samples of stacks and no events with times"

/* Returns true if the text contains all of these words. Unused entries are NULL. */
static bool
has_all(mrd_str text, const char *const words[3])
{
    for (size_t i = 0; i < 3 && words[i] != NULL; i++) {
        if (!mrd_str_has(text, words[i]))
            return false;
    }
    return true;
}

/* Removes a line from the front of the text. Returns false at an incomplete line. */
static bool
next_line(mrd_str *text, mrd_str *ret_line)
{
    const char *end = memchr(text->p, '\n', text->len);

    if (end == NULL)
        return false;
    *ret_line = (mrd_str){ text->p, (size_t) (end - text->p) };
    *text = (mrd_str){ end + 1, text->len - ret_line->len - 1 };
    return true;
}

/* Returns true for a line such as "main;step;load 12": frames, and the number of samples. */
static bool
is_collapsed(mrd_str line)
{
    size_t digits = 0;

    while (digits < line.len && isdigit((unsigned char) line.p[line.len - 1 - digits]))
        digits++;
    return digits > 0 && line.len > digits + 1 && line.p[line.len - digits - 1] == ' ' &&
           memchr(line.p, ';', line.len) != NULL && strchr("{[\"", line.p[0]) == NULL;
}

/* Returns true if the text's first two lines are stacks in collapsed form. A file of one line is
 * too short to be sure. */
static bool
are_collapsed(mrd_str text)
{
    mrd_str line;

    for (unsigned i = 0; i < 2; i++) {
        if (!next_line(&text, &line) || !is_collapsed(line))
            return false;
    }
    return true;
}

/* Returns true for the output of 'perf script': a line with a time that ends with ':', then frames
 * that are indented by a tab. */
static bool
is_perf_script(mrd_str text)
{
    mrd_str line;
    size_t i = 0;

    if (!next_line(&text, &line) || text.len == 0 || text.p[0] != '\t')
        return false;
    while (line.len > 0 && line.p[line.len - 1] == ' ')
        line.len--;
    if (line.len == 0 || line.p[line.len - 1] != ':')
        return false;
    for (; i + 2 < line.len; i++) { /* the '.' of a time such as "7382.626076:" */
        if (line.p[i] == '.' && i > 0 && isdigit((unsigned char) line.p[i - 1]) &&
            isdigit((unsigned char) line.p[i + 1]))
            return true;
    }
    return false;
}

/* Returns true for the begin of a pprof profile: its field 1, a ValueType of two small numbers. Go
 * writes the profile's time, which is a number, before it. */
static bool
is_pprof(mrd_str head)
{
    const unsigned char *p = (const unsigned char *) head.p, *end = p + head.len;

    while (end - p > 1 && (p[0] == 0x48 || p[0] == 0x50)) { /* fields 9 and 10 */
        for (p++; p < end && *p >= 0x80; p++)
            continue;
        p += p < end;
    }
    return end - p > 8 && p[0] == 0x0a && p[1] == 4 && p[2] == 0x08 && p[3] < 0x80 &&
           p[4] == 0x10 && p[5] < 0x80 && (p[6] == 0x0a || p[6] == 0x12);
}

/* Returns true for lists of numbers in lists, as in "[[1700000000, 1700000001], [[0, 12]]]". */
static bool
is_number_lists(mrd_str head)
{
    size_t brackets = 0;

    for (size_t i = 0; i < head.len; i++) {
        if (head.p[i] == '[')
            brackets++;
        else if (!isspace((unsigned char) head.p[i]))
            return brackets >= 2 && (isdigit((unsigned char) head.p[i]) || head.p[i] == '-');
    }
    return false;
}

const char *
mrd_foreign_advice(mrd_str head, bool *ret_beside)
{
    static const struct {
        const char *begin; /* first bytes of the file; empty for JSON objects */
        const char *words[3];
        const char *advice;
        bool beside;
    } rows[] = {
        { "PERFILE2",
          { NULL },
          "is a profile of Linux's perf (perf.data), " SAMPLES ": read it with 'perf report'",
          false },
        { "[ perf record:", { NULL }, "is what 'perf record' printed, and no profile", false },
        { "go 1.",
          { " trace" },
          "is an execution trace of Go: read it with 'go tool trace'",
          false },
        { "",
          { "www.speedscope.app/file-format-schema" },
          "is a speedscope profile, " SAMPLES ": open it at https://www.speedscope.app",
          false },
        { "",
          { "\"sample_count\"", "\"target_description\"" },
          "is a pyinstrument session, " SAMPLES ": read it with pyinstrument",
          false },
        { "",
          { "\"total_num_allocations\"", "\"total_bytes_allocated\"" },
          "is a summary by memray, which has sums and no events with times",
          false },
        { "",
          { "\"schema\"", "\"nodes\"", "\"ctrl_deps\"" },
          "is an ExecutionTrace of PyTorch, which has operators and tensors without durations: "
          "give "
          "the profiler's trace of the same process",
          true },
        { "\x80",
          { "device_traces", "segments" },
          "is a memory snapshot of PyTorch: open it at https://pytorch.org/memory_viz",
          true },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++) {
        bool begins = rows[i].begin[0] == '\0' ? mrd_str_first(head) == '{'
                                               : mrd_str_starts(head, rows[i].begin);

        if (!begins || !has_all(head, rows[i].words))
            continue;
        *ret_beside = rows[i].beside;
        return rows[i].advice;
    }
    if (is_number_lists(head)) {
        *ret_beside = true;
        return "is a memory timeline of PyTorch, which has sizes and no events: write it as HTML "
               "to "
               "look at it";
    }
    *ret_beside =
        is_pprof(head) || are_collapsed(head) || is_perf_script(head) ? false : *ret_beside;
    return is_pprof(head)        ? "is a pprof profile, " SAMPLES ": read it with 'go tool pprof'"
           : are_collapsed(head) ? "has stacks in collapsed form, with counts and no times: make a "
                                   "flame graph of it"
           : is_perf_script(head) ? "is the output of 'perf script', " SAMPLES
                                  : NULL;
}
