#include "capture/ring_name.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A decimal number without sign or leading zeros; NULL when there is none. */
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

bool
mrd_ring_name_parse(const char *file_name, mrd_ring_name *ret_name)
{
    static const char prefix[] = "meridian.";
    mrd_ring_name name = { 0 };
    const char *p = file_name;
    uint64_t pid, tid, serial = 0;

    if (strncmp(p, prefix, sizeof(prefix) - 1) != 0)
        return false;
    p += sizeof(prefix) - 1;
    for (size_t i = 0; i < 16; i++, p += 2) {
        int hi = name_hex(p[0]), lo = hi < 0 ? -1 : name_hex(p[1]);

        if (lo < 0)
            return false;
        name.boot_id[i] = (uint8_t) (hi << 4 | lo);
    }
    if (*p != '.' || (p = name_number(p + 1, INT32_MAX, &pid)) == NULL || *p != '.' ||
        (p = name_number(p + 1, UINT64_MAX, &name.start_ticks)) == NULL || *p != '.' ||
        (p = name_number(p + 1, INT32_MAX, &tid)) == NULL)
        return false;
    if (*p == '.' && p[1] >= '1' && p[1] <= '9' &&
        (p = name_number(p + 1, UINT32_MAX, &serial)) == NULL)
        return false;
    if (strcmp(p, ".ring") != 0)
        return false;
    name.pid = (int32_t) pid;
    name.tid = (int32_t) tid;
    name.serial = (uint32_t) serial;
    *ret_name = name;
    return true;
}

void
mrd_ring_name_print(const mrd_ring_name *name, char *text)
{
    char boot[33], serial[16] = "";

    for (size_t i = 0; i < 16; i++)
        snprintf(boot + 2 * i, 3, "%02x", name->boot_id[i]);
    if (name->serial != 0)
        snprintf(serial, sizeof(serial), ".%" PRIu32, name->serial);
    snprintf(text, MRD_RING_NAME_MAX, "meridian.%s.%" PRId32 ".%" PRIu64 ".%" PRId32 "%s.ring",
             boot, name->pid, name->start_ticks, name->tid, serial);
}

static void
print_beside(const mrd_ring_name *name, const char *suffix, char *text)
{
    char boot[33];

    for (size_t i = 0; i < 16; i++)
        snprintf(boot + 2 * i, 3, "%02x", name->boot_id[i]);
    snprintf(text, MRD_RING_NAME_MAX, "meridian.%s.%" PRId32 ".%" PRIu64 ".%s", boot, name->pid,
             name->start_ticks, suffix);
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

const char *
mrd_ring_dir(void)
{
    const char *dir = getenv("MERIDIAN_RING_DIR");

    return dir != NULL && *dir != '\0' ? dir : "/dev/shm";
}
