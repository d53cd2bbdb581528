#include "capture/ring/ring_name.h"

#include <stdlib.h>
#include <string.h>

#include "capture/ring/print.h"

/* Parses a decimal number without sign or leading zeros. Returns the text after it, or NULL if
 * there is no such number. */
static const char *
name_number(const char *p, uint64_t max, uint64_t *ret_v)
{
    uint64_t v = 0;
    const char *start = p;

    for (; *p >= '0' && *p <= '9'; p++) {
        uint64_t digit = (uint64_t) (*p - '0');

        if (v > (max - digit) / 10)
            return NULL;
        v = v * 10 + digit;
    }
    if (p == start || (*start == '0' && p != start + 1))
        return NULL;
    *ret_v = v;
    return p;
}

static int
name_hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Parses "meridian.<boot>.<pid>.<start>.". Returns the text after it, or NULL if the name has
 * another form. */
static const char *
parse_process(const char *cursor, mrd_ring_name *ret_name)
{
    static const char prefix[] = "meridian.";
    uint64_t pid;

    if (strncmp(cursor, prefix, sizeof(prefix) - 1) != 0)
        return NULL;
    cursor += sizeof(prefix) - 1;
    for (size_t i = 0; i < 16; i++, cursor += 2) {
        int hi = name_hex(cursor[0]), lo = hi < 0 ? -1 : name_hex(cursor[1]);

        if (lo < 0)
            return NULL;
        ret_name->boot_id[i] = (uint8_t) (hi << 4 | lo);
    }
    if (*cursor != '.' || (cursor = name_number(cursor + 1, INT32_MAX, &pid)) == NULL ||
        *cursor != '.' ||
        (cursor = name_number(cursor + 1, UINT64_MAX, &ret_name->start_ticks)) == NULL ||
        *cursor != '.')
        return NULL;
    ret_name->pid = (int32_t) pid;
    return cursor + 1;
}

/* Parses an optional ".<n>" with n >= 1. */
static const char *
parse_serial(const char *p, uint32_t *ret_serial)
{
    uint64_t serial = 0;

    if (*p == '.' && p[1] >= '1' && p[1] <= '9' &&
        (p = name_number(p + 1, UINT32_MAX, &serial)) == NULL)
        return NULL;
    *ret_serial = (uint32_t) serial;
    return p;
}

bool
mrd_ring_name_parse(const char *file_name, mrd_ring_name *ret_name)
{
    mrd_ring_name name = { 0 };
    const char *p = parse_process(file_name, &name);
    uint64_t tid;

    if (p == NULL || (p = name_number(p, INT32_MAX, &tid)) == NULL ||
        (p = parse_serial(p, &name.serial)) == NULL || strcmp(p, ".ring") != 0)
        return false;
    name.tid = (int32_t) tid;
    *ret_name = name;
    return true;
}

bool
mrd_ring_note_parse(const char *file_name, mrd_ring_note_name *ret_name)
{
    mrd_ring_note_name name = { 0 };
    const char *p = parse_process(file_name, &name.process);

    if (p == NULL || strncmp(p, "lost", 4) != 0 || (p = parse_serial(p + 4, &name.taken)) == NULL ||
        *p != '\0')
        return false;
    *ret_name = name;
    return true;
}

/* Prints "meridian.<boot>.<pid>.<start>." */
static mrd_print
print_process(const mrd_ring_name *name, char *text)
{
    mrd_print print = mrd_print_to(text, MRD_RING_NAME_MAX);

    mrd_print_text(&print, "meridian.");
    mrd_print_hex(&print, name->boot_id, sizeof(name->boot_id));
    mrd_print_text(&print, ".");
    mrd_print_u64(&print, (uint64_t) name->pid);
    mrd_print_text(&print, ".");
    mrd_print_u64(&print, name->start_ticks);
    mrd_print_text(&print, ".");
    return print;
}

void
mrd_ring_name_print(const mrd_ring_name *name, char *text)
{
    mrd_print print = print_process(name, text);

    mrd_print_u64(&print, (uint64_t) name->tid);
    if (name->serial != 0) {
        mrd_print_text(&print, ".");
        mrd_print_u64(&print, name->serial);
    }
    mrd_print_text(&print, ".ring");
}

static void
print_beside(const mrd_ring_name *name, const char *suffix, char *text)
{
    mrd_print print = print_process(name, text);

    mrd_print_text(&print, suffix);
}

void
mrd_ring_control_print(const mrd_ring_name *name, char *text)
{
    print_beside(name, "control", text);
}

void
mrd_ring_settings_print(const mrd_ring_name *name, char *text)
{
    print_beside(name, "settings", text);
}

void
mrd_ring_note_print(const mrd_ring_note_name *name, char *text)
{
    mrd_print print = print_process(&name->process, text);

    mrd_print_text(&print, "lost");
    if (name->taken != 0) {
        mrd_print_text(&print, ".");
        mrd_print_u64(&print, name->taken);
    }
}

mrd_str
mrd_ring_ident_value(mrd_str lines, const char *key)
{
    const char *p = lines.p, *end = p + lines.len;
    size_t klen = strlen(key);

    while (p < end) {
        const char *nl = memchr(p, '\n', (size_t) (end - p));
        const char *stop = nl == NULL ? end : nl;

        if ((size_t) (stop - p) > klen && p[klen] == '=' && memcmp(p, key, klen) == 0)
            return (mrd_str){ p + klen + 1, (size_t) (stop - p) - klen - 1 };
        p = stop + 1;
    }
    return (mrd_str){ NULL, 0 };
}

const char *
mrd_ring_dir(void)
{
    const char *dir = getenv("MERIDIAN_RING_DIR");

    return dir != NULL && *dir != '\0' ? dir : "/dev/shm";
}
