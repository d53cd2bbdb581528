#include "trace/import/capture_names.h"

#include <ctype.h>
#include <string.h>

#include "base/num.h"
#include "base/obj.h"
#include "trace/model/catalog.h"

#define DIGITS "0123456789"

static size_t
count_leading(mrd_str text, const char *set)
{
    size_t n = 0;

    while (n < text.len && text.p[n] != '\0' && strchr(set, text.p[n]) != NULL)
        n++;
    return n;
}

int64_t
mrd_capture_number(mrd_str name, const char *word)
{
    const char *at = memmem(name.p, name.len, word, strlen(word));
    size_t start, end;
    int64_t v;

    if (at == NULL)
        return MRD_NONE;
    start = end = (size_t) (at - name.p) + strlen(word);
    end += count_leading((mrd_str){ name.p + start, name.len - start }, DIGITS);
    return mrd_num_i64((mrd_str){ name.p + start, end - start }, &v) == MRD_OK ? v : MRD_NONE;
}

int64_t
mrd_number_after(mrd_str text, const char *word)
{
    const size_t len = strlen(word);
    int64_t found = MRD_NONE;

    for (size_t i = 0; i + len < text.len; i++) {
        size_t from = i + len;

        if (strncasecmp(text.p + i, word, len) != 0 ||
            (i > 0 && isalpha((unsigned char) text.p[i - 1])))
            continue;
        from += count_leading((mrd_str){ text.p + from, text.len - from }, " -_=:#");
        (void) mrd_num_i64(
            (mrd_str){ text.p + from,
                       count_leading((mrd_str){ text.p + from, text.len - from }, DIGITS) },
            &found);
    }
    return found;
}

/* Returns the length of the instance id in a name such as "i-0abc-4711". Only an EC2 instance id
 * counts, because many other names also end in a dash and a number. Returns 0 for other names. */
static size_t
instance_before_dash(mrd_str name)
{
    size_t hex;

    if (!mrd_str_starts(name, "i-"))
        return 0;
    hex = count_leading((mrd_str){ name.p + 2, name.len - 2 }, "0123456789abcdef");
    if (hex < 8 || 2 + hex + 1 >= name.len || name.p[2 + hex] != '-')
        return 0;
    name = (mrd_str){ name.p + 2 + hex + 1, name.len - 2 - hex - 1 };
    return count_leading(name, DIGITS) == name.len ? 2 + hex : 0;
}

bool
mrd_capture_split(mrd_str name, mrd_str *ret_instance, int64_t *ret_pid, mrd_str *ret_rest)
{
    static const char mark[] = "_pid_";
    const char *at = memmem(name.p, name.len, mark, sizeof(mark) - 1);
    size_t instance = at == NULL ? instance_before_dash(name) : (size_t) (at - name.p);
    size_t start = instance + (at == NULL ? 1 : sizeof(mark) - 1), digits;

    if (instance == 0)
        return false;
    digits = count_leading((mrd_str){ name.p + start, name.len - start }, DIGITS);
    if (mrd_num_i64((mrd_str){ name.p + start, digits }, ret_pid) != MRD_OK)
        return false;
    *ret_instance = (mrd_str){ name.p, instance };
    *ret_rest = (mrd_str){ name.p + start + digits, name.len - start - digits };
    return true;
}

const char *
mrd_capture_kind(mrd_str name)
{
    static const struct {
        const char *suffix, *kind;
    } rows[] = {
        { ".ntff", "NTFF" },
        { ".neff", "NEFF" },
        { "ntrace.pb", "ntrace.pb" },
        { "trace_info.pb", "trace_info.pb" },
        { "cpu_util.pb", "cpu_util.pb" },
        { "host_mem.pb", "host_mem.pb" },
        { ".xplane.pb", "XSpace" },
    };

    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        if (mrd_str_ends(name, rows[i].suffix))
            return rows[i].kind;
    return NULL;
}
