/* Written and durable contents of a simulated disk: inodes, bytes and names. */
#include "tests/sim/disk_int.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/vec.h"

#define SECTOR 512u

uint64_t
sim_disk_below(sim_disk *d, uint64_t n)
{
    uint64_t x = d->rng;

    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    d->rng = x;
    return n == 0 ? 0 : x % n;
}

/* ---- Inodes ---- */

void
sim_must(bool ok)
{
    if (!ok)
        abort(); /* out of memory; a test may abort */
}

inode *
sim_inode_new(sim_disk *d, node_kind kind, unsigned mode)
{
    inode *x = calloc(1, sizeof(*x));

    sim_must(x != NULL && MRD_VEC_ROOM(d->nodes, d->n_nodes, d->cap_nodes, 1));
    *x = (inode){
        .disk = d, .number = ++d->last_number, .refs = 1, .kind = kind, .mode = mode & 07777
    };
    d->nodes[d->n_nodes++] = x;
    return x;
}

inode *
sim_inode_ref(inode *x)
{
    if (x != NULL)
        x->refs++;
    return x;
}

static void
table_clear(dir_table *t)
{
    for (size_t i = 0; i < t->n; i++) {
        free(t->v[i].name);
        sim_inode_unref(t->v[i].to);
    }
    free(t->v);
    *t = (dir_table){ 0 };
}

void
sim_inode_unref(inode *x)
{
    sim_disk *d;

    if (x == NULL || --x->refs > 0)
        return;
    d = x->disk;
    for (size_t i = d->n_nodes; i-- > 0;) {
        if (d->nodes[i] != x)
            continue;
        memmove(&d->nodes[i], &d->nodes[i + 1], (d->n_nodes - i - 1) * sizeof(inode *));
        d->n_nodes--;
        break;
    }
    d->used -= x->given_back ? 0 : x->len;
    table_clear(&x->shown);
    table_clear(&x->kept);
    free(x->data);
    free(x->medium);
    free(x->dirty);
    free(x);
}

void
sim_inode_give_back(inode *x)
{
    if (x->names > 0 || x->opens > 0 || x->given_back)
        return;
    x->given_back = true;
    x->disk->used -= x->len;
}

dir_entry *
sim_table_find(const dir_table *t, const char *name)
{
    uint32_t hash = mrd_crc32c(0, name, strlen(name));

    for (size_t i = 0; i < t->n; i++) {
        if (t->v[i].hash == hash && strcmp(t->v[i].name, name) == 0)
            return &t->v[i];
    }
    return NULL;
}

/* Sets the inode of a name. If `to` is NULL, removes the name. */
void
sim_table_put(dir_table *t, const char *name, inode *to)
{
    dir_entry *e = sim_table_find(t, name);
    inode *before = e == NULL ? NULL : e->to;

    sim_inode_ref(to);
    if (e == NULL && to != NULL) {
        sim_must(MRD_VEC_ROOM(t->v, t->n, t->cap, 1));
        e = &t->v[t->n++];
        *e = (dir_entry){ .name = strdup(name), .hash = mrd_crc32c(0, name, strlen(name)) };
        sim_must(e->name != NULL);
    }
    if (e != NULL && to == NULL) {
        free(e->name);
        memmove(e, e + 1, (size_t) (t->v + t->n - e - 1) * sizeof(*e));
        t->n--;
    } else if (e != NULL) {
        e->to = to;
    }
    sim_inode_unref(before);
}

void
sim_table_copy(dir_table *to, const dir_table *from)
{
    dir_table old = *to;

    *to = (dir_table){ 0 };
    for (size_t i = 0; i < from->n; i++)
        sim_table_put(to, from->v[i].name, from->v[i].to);
    table_clear(&old);
}

/* ---- Bytes ---- */

static void
grow(uint8_t **p, size_t *cap, size_t len)
{
    size_t before = *cap;

    if (len <= before)
        return;
    *cap = len < 2 * before ? 2 * before : len;
    sim_must((*p = realloc(*p, *cap)) != NULL);
    memset(*p + before, 0, *cap - before);
}

/* Changes the size of a file. New bytes are zero. */
void
sim_inode_set_len(inode *x, size_t len)
{
    grow(&x->data, &x->cap, len);
    if (len < x->len)
        memset(x->data + len, 0, x->len - len);
    if (!x->given_back) {
        x->disk->used += len;
        x->disk->used -= x->len;
    }
    x->len = len;
}

void
sim_inode_set_medium_len(inode *x, size_t len)
{
    grow(&x->medium, &x->medium_cap, len);
    if (len < x->medium_len)
        memset(x->medium + len, 0, x->medium_len - len);
    x->medium_len = len;
}

void
sim_inode_mark_dirty(inode *x, size_t from, size_t to)
{
    size_t i = x->n_dirty, end;

    if (from == to)
        return;
    while (i > 0 && x->dirty[i - 1].to >= from)
        i--;
    for (end = i; end < x->n_dirty && x->dirty[end].from <= to; end++) {
        from = x->dirty[end].from < from ? x->dirty[end].from : from;
        to = x->dirty[end].to > to ? x->dirty[end].to : to;
    }
    if (end == i) {
        sim_must(MRD_VEC_ROOM(x->dirty, x->n_dirty, x->cap_dirty, 1));
        memmove(&x->dirty[i + 1], &x->dirty[i], (x->n_dirty - i) * sizeof(*x->dirty));
        x->n_dirty++;
    } else {
        memmove(&x->dirty[i + 1], &x->dirty[end], (x->n_dirty - end) * sizeof(*x->dirty));
        x->n_dirty -= end - i - 1;
    }
    x->dirty[i] = (dirty_range){ from, to };
}

/* Copies the range to the medium, limited to its length there. */
static void
put_on_medium(inode *x, size_t from, size_t to)
{
    to = to < x->len ? to : x->len;
    to = to < x->medium_len ? to : x->medium_len;
    if (from < to)
        memcpy(x->medium + from, x->data + from, to - from);
}

static void
clean(inode *x)
{
    x->n_dirty = 0;
    x->resized = false;
}

bool
sim_inode_is_dirty(const inode *x)
{
    return x->n_dirty > 0 || x->resized;
}

void
sim_inode_sync(inode *x)
{
    sim_inode_set_medium_len(x, x->len);
    for (size_t i = 0; i < x->n_dirty; i++)
        put_on_medium(x, x->dirty[i].from, x->dirty[i].to);
    clean(x);
}

/* Writes a random part of the dirty sectors. The size is the old one, the new one, or one in
 * between. */
void
sim_inode_sync_some(inode *x, bool any_size)
{
    size_t least = x->len < x->medium_len ? x->len : x->medium_len;
    size_t most = x->len > x->medium_len ? x->len : x->medium_len;
    size_t len = x->medium_len;

    if (any_size)
        len = least + (size_t) sim_disk_below(x->disk, most - least + 1);
    else if (sim_disk_below(x->disk, 2) == 0)
        len = x->len;
    sim_inode_set_medium_len(x, len);
    for (size_t i = 0; i < x->n_dirty; i++) {
        for (size_t at = x->dirty[i].from; at < x->dirty[i].to;) {
            size_t end = (at / SECTOR + 1) * SECTOR;

            end = end < x->dirty[i].to ? end : x->dirty[i].to;
            if (sim_disk_below(x->disk, 2) == 0)
                put_on_medium(x, at, end);
            at = end;
        }
    }
    clean(x);
}

/* Writes the dirty data up to a random byte. */
void
sim_inode_sync_prefix(inode *x)
{
    size_t from = x->n_dirty == 0 ? x->len : x->dirty[0].from;
    size_t cut = from + (size_t) sim_disk_below(x->disk, x->len < from ? 1 : x->len - from + 1);

    if (x->len < x->medium_len) {
        if (sim_disk_below(x->disk, 2) == 0)
            sim_inode_set_medium_len(x, x->len);
    } else if (cut > x->medium_len) {
        sim_inode_set_medium_len(x, cut);
    }
    for (size_t i = 0; i < x->n_dirty && x->dirty[i].from < cut; i++)
        put_on_medium(x, x->dirty[i].from, x->dirty[i].to < cut ? x->dirty[i].to : cut);
    clean(x);
}

void
sim_inode_forget_cache(inode *x)
{
    sim_inode_set_len(x, x->medium_len);
    if (x->medium_len > 0)
        memcpy(x->data, x->medium, x->medium_len);
    x->unsure = false;
    clean(x);
}

/* ---- Names ---- */

static void
op_free(name_op *op)
{
    for (unsigned i = 0; i < op->n; i++) {
        sim_inode_unref(op->part[i].folder);
        sim_inode_unref(op->part[i].to);
        free(op->part[i].name);
    }
}

void
sim_names_set(sim_disk *d, name_op *op, inode *folder, const char *name, inode *to)
{
    dir_entry *e = sim_table_find(&folder->shown, name);
    name_change *c = &op->part[op->n++];

    if (e != NULL) {
        e->to->names--;
        d->used -= NAME_COST;
        if (e->to != to)
            sim_inode_give_back(e->to);
    }
    if (to != NULL) {
        to->names++;
        d->used += NAME_COST;
    }
    *c = (name_change){ sim_inode_ref(folder), strdup(name), sim_inode_ref(to) };
    sim_must(c->name != NULL);
    sim_table_put(&folder->shown, name, to);
}

void
sim_names_add(sim_disk *d, const name_op *op)
{
    sim_must(MRD_VEC_ROOM(d->ops, d->n_ops, d->cap_ops, 1));
    d->ops[d->n_ops++] = *op;
}

void
sim_names_remove(sim_disk *d, size_t i)
{
    op_free(&d->ops[i]);
    memmove(&d->ops[i], &d->ops[i + 1], (d->n_ops - i - 1) * sizeof(*d->ops));
    d->n_ops--;
}

/* Applies the change on the medium. Earlier pending changes of the same names become void. */
void
sim_names_apply(sim_disk *d, size_t at)
{
    for (unsigned k = 0; k < d->ops[at].n; k++) {
        name_change *c = &d->ops[at].part[k];

        if (c->folder == NULL)
            continue;
        sim_table_put(&c->folder->kept, c->name, c->to);
        for (size_t i = 0; i < at; i++) {
            for (unsigned m = 0; m < d->ops[i].n; m++) {
                name_change *old = &d->ops[i].part[m];

                if (old->folder != c->folder || strcmp(old->name, c->name) != 0)
                    continue;
                sim_inode_unref(old->folder);
                old->folder = NULL;
            }
        }
    }
}

static bool
op_touches(const name_op *op, const inode *folder)
{
    return (op->n > 0 && op->part[0].folder == folder) ||
           (op->n > 1 && op->part[1].folder == folder);
}

/* folder NULL: all. */
void
sim_names_sync(sim_disk *d, const inode *folder)
{
    for (size_t i = 0; i < d->n_ops;) {
        if (folder != NULL && !op_touches(&d->ops[i], folder)) {
            i++;
            continue;
        }
        sim_names_apply(d, i);
        sim_names_remove(d, i);
    }
}
