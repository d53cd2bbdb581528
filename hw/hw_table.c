#include "hw/hw_table.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/num.h"
#include "base/sys/file.h"
#include "base/vec.h"

void
mrd_hw_table_fini(mrd_hw_table *table)
{
    free(table->rows);
    mrd_index_fini(&table->by_name);
    mrd_index_fini(&table->by_key);
    *table = (mrd_hw_table){ 0 };
}

static uint64_t
name_hash(mrd_str name)
{
    uint64_t h =
        /* FNV-1a; not base/hash, because libmeridian links this file but not base/hash */
        1469598103934665603u;

    for (size_t i = 0; i < name.len; i++)
        h = (h ^ (uint8_t) name.p[i]) * 1099511628211u;
    return h ^ h >> 29;
}

static uint64_t
key_hash(uint64_t key)
{
    key *= 0x9e3779b97f4a7c15u;
    return key ^ key >> 31;
}

static bool
same_name(const void *self, uint32_t row, const void *name)
{
    const mrd_hw_table *table = self;
    const mrd_str *want = name;

    return mrd_str_is(*want, table->rows[row].counter.name);
}

static bool
same_key(const void *self, uint32_t row, const void *key)
{
    const mrd_hw_table *table = self;
    const uint64_t *want = key;

    return table->rows[row].key == *want;
}

static size_t
row_of(uint32_t found)
{
    return found == MRD_INDEX_NONE ? MRD_HW_NO_ROW : found;
}

size_t
mrd_hw_table_find(const mrd_hw_table *table, mrd_str name)
{
    return row_of(mrd_index_find(&table->by_name, name_hash(name), same_name, table, &name));
}

size_t
mrd_hw_table_find_key(const mrd_hw_table *table, uint64_t key)
{
    return row_of(mrd_index_find(&table->by_key, key_hash(key), same_key, table, &key));
}

/* Removes the last row from the indexes. */
static void
unlist(mrd_hw_table *table, uint32_t row)
{
    const mrd_hw_row *hw_row = &table->rows[row];

    mrd_index_remove(&table->by_name, name_hash(mrd_str_of(hw_row->counter.name)), row);
    mrd_index_remove(&table->by_key, key_hash(hw_row->key), row);
}

size_t
mrd_hw_table_add(mrd_hw_table *table, const mrd_hw_counter *counter, uint64_t key)
{
    mrd_str name = mrd_str_of(counter->name);
    size_t at = mrd_hw_table_find(table, name);
    uint32_t row = (uint32_t) table->n;

    if (at != MRD_HW_NO_ROW)
        return at;
    if (!MRD_VEC_ROOM_MAX(table->rows, table->n, table->cap, 1, MRD_HW_COUNTERS_MAX)) {
        table->refused++;
        return MRD_HW_NO_ROW;
    }
    table->rows[row] = (mrd_hw_row){ .counter = *counter, .key = key };
    if (mrd_index_add(&table->by_name, name_hash(name), row) != MRD_OK ||
        (key != 0 && mrd_index_add(&table->by_key, key_hash(key), row) != MRD_OK)) {
        unlist(table, row);
        table->refused++;
        return MRD_HW_NO_ROW;
    }
    return table->n++;
}

void
mrd_hw_table_drop_last(mrd_hw_table *table)
{
    unlist(table, (uint32_t) --table->n);
}

void
mrd_hw_table_set_i(mrd_hw_table *table, size_t row, int64_t v, mrd_local_ns at)
{
    mrd_hw_row *hw_row;

    if (row >= table->n)
        return;
    hw_row = &table->rows[row];
    hw_row->round = table->round;
    hw_row->value.at = at;
    hw_row->value.i = v;
    hw_row->value.state =
        v == 0 && (hw_row->counter.flags & MRD_HW_ZERO_UNKNOWN) != 0 ? MRD_HW_UNKNOWN : MRD_HW_OK;
}

void
mrd_hw_table_set_d(mrd_hw_table *table, size_t row, double v, mrd_local_ns at)
{
    if (row >= table->n)
        return;
    table->rows[row].round = table->round;
    table->rows[row].value = (mrd_hw_value){ .at = at, .d = v, .state = MRD_HW_OK };
}

void
mrd_hw_table_take(const mrd_hw_table *table, const uint32_t *want, size_t n,
                  mrd_hw_value *ret_values, mrd_local_ns at)
{
    for (size_t i = 0; i < n; i++)
        if (want[i] < table->n && table->rows[want[i]].round == table->round)
            ret_values[i] = table->rows[want[i]].value;
        else
            ret_values[i] = (mrd_hw_value){ .at = at, .state = MRD_HW_GONE };
}

bool
mrd_hw_read(const char *root, const char *rel, mrd_buf *to)
{
    char *path = NULL; /* on the heap, because threads of the host program may have small stacks */
    mrd_err err;
    int fd, saved;

    mrd_buf_reset(to);
    if (asprintf(&path, "%s%s%s", root, *rel == '\0' ? "" : "/", rel) < 0) {
        errno = ENOMEM;
        return false;
    }
    /* O_NONBLOCK, so that open does not block if the path is a FIFO. */
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    saved = errno;
    free(path);
    errno = saved;
    if (fd < 0)
        return false;
    err = mrd_file_read_fd(fd, MRD_HW_FILE_MAX, to);
    /* the rest of the file is ignored */
    saved = err == MRD_IO ? errno : err == MRD_NOMEM ? ENOMEM : 0;
    close(fd);
    errno = saved;
    return saved == 0;
}

bool
mrd_hw_line(mrd_str *rest, mrd_str *ret_line)
{
    const char *end;

    if (rest->len == 0)
        return false;
    end = memchr(rest->p, '\n', rest->len);
    ret_line->p = rest->p;
    ret_line->len = end == NULL ? rest->len : (size_t) (end - rest->p);
    rest->len -= ret_line->len + (end != NULL);
    rest->p += ret_line->len + (end != NULL);
    return true;
}

static bool
is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

mrd_str
mrd_hw_word(mrd_str *rest)
{
    mrd_str word;

    while (rest->len > 0 && is_blank(*rest->p)) {
        rest->p++;
        rest->len--;
    }
    word = (mrd_str){ rest->p, 0 };
    while (word.len < rest->len && !is_blank(word.p[word.len]))
        word.len++;
    rest->p += word.len;
    rest->len -= word.len;
    return word;
}

bool
mrd_hw_int(mrd_str word, int64_t *ret_v)
{
    mrd_err err = mrd_num_i64(word, ret_v);

    if (err == MRD_RANGE)
        *ret_v = word.p[0] == '-' ? INT64_MIN : INT64_MAX;
    return err == MRD_OK || err == MRD_RANGE;
}
