#include "agent/stack/image.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/vec.h"
#include "hw/proc.h"

#define HEADERS_MAX 64u
#define DYNAMIC_MAX 128u
#define BUCKETS_MAX (1u << 18)
#define MAPS_MAX    65536u /* maximum number of lines of /proc/PID/maps that are read */

/* ---- Reading the memory of a process ---- */

static bool
is_readable(const mrd_space *space, uint64_t at, size_t size)
{
    size_t low = 0, high = space->n_unread;

    while (low < high) { /* finds the first range that ends after `at` */
        size_t middle = low + (high - low) / 2;

        if (space->unread[middle].end <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low == space->n_unread ||
           (space->unread[low].begin >= at && size <= space->unread[low].begin - at);
}

bool
mrd_space_read(const mrd_space *space, uint64_t at, void *to, size_t size)
{
    return at <= INT64_MAX && is_readable(space, at, size) &&
           mrd_local_before(mrd_local_now(), space->deadline) &&
           pread(space->mem, to, size, (off_t) at) == (ssize_t) size;
}

bool
mrd_space_text(const mrd_space *space, const char *path, char *to, size_t size)
{
    int fd = openat(space->proc, path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, to, size - 1);

    if (fd >= 0)
        close(fd);
    if (n < 0)
        return false;
    to[n] = '\0';
    if (n > 0 && to[n - 1] == '\n')
        to[n - 1] = '\0';
    return true;
}

/* ---- Mapped files ---- */

#define MOUNTS_MAX 4096u

/* The file systems that the process and the node's first process have mounted. */
typedef struct {
    struct {
        dev_t dev;
        bool fuse;
    } * v;
    size_t n, cap;
    /* device number of shared memory without a file name, which is in no list of mounts */
    dev_t memory;
} mounts;

static mrd_err
read_mounts(const mrd_space *space, const char *path, mounts *m)
{
    int fd = openat(space->proc, path, O_RDONLY | O_CLOEXEC);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    char line[4352];
    mrd_err err = MRD_OK;

    if (file == NULL) {
        if (fd >= 0)
            close(fd);
        return MRD_OK;
    }
    while (err == MRD_OK && m->n < MOUNTS_MAX && fgets(line, sizeof(line), file) != NULL) {
        const char *type = strstr(line, " - ");
        unsigned major, minor;

        if (type == NULL || sscanf(line, "%*u %*u %u:%u", &major, &minor) != 2)
            continue;
        if (!MRD_VEC_ROOM(m->v, m->n, m->cap, 1)) {
            err = MRD_NOMEM;
            break;
        }
        m->v[m->n].dev = makedev(major, minor);
        m->v[m->n++].fuse = strncmp(type + 3, "fuse", 4) == 0;
    }
    fclose(file);
    return err;
}

/* Returns true if the file system may be FUSE, which means that a program serves it. Returns true
 * also for a file system that is in no list of mounts and has no block device, because it may have
 * been unmounted while a file of it is mapped. */
static bool
may_be_fuse(const mounts *m, dev_t dev)
{
    bool known = major(dev) != 0 || dev == m->memory;

    for (size_t i = 0; i < m->n; i++) {
        if (m->v[i].dev == dev && m->v[i].fuse)
            return true;
        known = known || m->v[i].dev == dev;
    }
    return !known;
}

static bool
add_unread(mrd_space *space, uint64_t begin, uint64_t end)
{
    if (space->n_unread > 0 && space->unread[space->n_unread - 1].end == begin) {
        space->unread[space->n_unread - 1].end = end;
        return true;
    }
    if (!MRD_VEC_ROOM(space->unread, space->n_unread, space->cap_unread, 1))
        return false;
    space->unread[space->n_unread++] = (mrd_space_range){ begin, end };
    return true;
}

static void
add_mapping(mrd_space *space, uint64_t begin, uint64_t end, uint64_t offset, uint64_t inode,
            const char *path)
{
    mrd_image *image = space->n == 0 ? NULL : &space->images[space->n - 1];
    const char *slash = strrchr(path, '/');

    if (image != NULL && offset != 0 && image->inode == inode) {
        image->end = end;
        return;
    }
    if (offset != 0 || (inode == 0 && strcmp(path, "[vdso]") != 0) ||
        !MRD_VEC_ROOM_MAX(space->images, space->n, space->cap, 1, MRD_SPACE_IMAGES))
        return;
    image = &space->images[space->n++];
    *image = (mrd_image){ .begin = begin, .end = end, .inode = inode };
    snprintf(image->name, sizeof(image->name), "%s", slash == NULL ? path : slash + 1);
}

static mrd_err
read_maps_with(mrd_space *space, const mounts *m)
{
    int fd = openat(space->proc, "maps", O_RDONLY | O_CLOEXEC);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "r");
    char line[4352];
    mrd_err err = MRD_OK;

    if (file == NULL) {
        err = errno == EACCES || errno == EPERM ? MRD_DENIED : MRD_NOTFOUND;
        if (fd >= 0)
            close(fd);
        return err;
    }
    for (unsigned i = 0; i < MAPS_MAX && err == MRD_OK && fgets(line, sizeof(line), file) != NULL &&
                         mrd_local_before(mrd_local_now(), space->deadline);
         i++) {
        uint64_t begin, end, offset, inode;
        unsigned major, minor;
        int path = 0;

        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %" SCNx64 " %x:%x %" SCNu64 " %n", &begin,
                   &end, &offset, &major, &minor, &inode, &path) != 6 ||
            path == 0)
            continue;
        line[strcspn(line, "\n")] = '\0';
        if (inode != 0 && may_be_fuse(m, makedev(major, minor)))
            err = add_unread(space, begin, end) ? MRD_OK : MRD_NOMEM;
        else
            add_mapping(space, begin, end, offset, inode, line + path);
    }
    fclose(file);
    return err;
}

static mrd_err
read_maps(mrd_space *space)
{
    mounts m = { NULL, 0, 0, 0 };
    int memory = memfd_create("meridian", MFD_CLOEXEC);
    struct stat st;
    mrd_err err;

    if (memory >= 0 && fstat(memory, &st) == 0)
        m.memory = st.st_dev;
    if (memory >= 0)
        close(memory);
    err = read_mounts(space, "mountinfo", &m);
    /* also reads the mounts of process 1, because a container sees only some of them */
    if (err == MRD_OK)
        err = read_mounts(space, "../1/mountinfo", &m);
    if (err == MRD_OK)
        err = read_maps_with(space, &m);
    free(m.v);
    return err;
}

bool
mrd_space_is_of(const mrd_space *space, int64_t uid)
{
    struct stat st;

    /* The owner of /proc/PID is the effective user of the process, or root if the program is
     * set-uid. */
    return fstat(space->proc, &st) == 0 && (int64_t) st.st_uid == uid;
}

mrd_err
mrd_space_open(const char *proc_root, int64_t pid, int64_t start_ticks, int64_t uid,
               mrd_local_ns deadline, mrd_space *ret_space)
{
    char path[300], text[1024];
    mrd_proc_stat st;
    mrd_err err;

    *ret_space = (mrd_space){ .proc = -1, .mem = -1, .deadline = deadline };
    snprintf(path, sizeof(path), "%s/%" PRId64, proc_root, pid);
    ret_space->proc = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (ret_space->proc < 0 || !mrd_space_text(ret_space, "stat", text, sizeof(text)) ||
        mrd_proc_parse_stat(mrd_str_of(text), &st) != MRD_OK ||
        (start_ticks >= 0 && st.start_ticks != start_ticks)) {
        mrd_space_close(ret_space);
        return MRD_NOTFOUND;
    }
    ret_space->mem = openat(ret_space->proc, "mem", O_RDONLY | O_CLOEXEC);
    /* If the program calls exec later, `mem` still refers to the memory of the old program. So the
     * user must be checked after `mem` was opened. */
    err = ret_space->mem >= 0 ? mrd_space_is_of(ret_space, uid) ? read_maps(ret_space) : MRD_STATE
          : errno == EACCES || errno == EPERM ? MRD_DENIED
                                              : MRD_NOTFOUND;
    if (err != MRD_OK)
        mrd_space_close(ret_space);
    return err;
}

void
mrd_space_close(mrd_space *space)
{
    for (size_t i = 0; i < space->n; i++) {
        free(space->images[i].symbols);
        free(space->images[i].names);
    }
    free(space->images);
    free(space->unread);
    if (space->proc >= 0)
        close(space->proc);
    if (space->mem >= 0)
        close(space->mem);
    *space = (mrd_space){ .proc = -1, .mem = -1 };
}

/* ---- Symbol tables of a library or program ---- */

static void
read_headers(const mrd_space *space, mrd_image *image)
{
    Elf64_Phdr headers[HEADERS_MAX];
    Elf64_Ehdr ehdr;
    uint64_t first = UINT64_MAX, dynamic = 0, frames = 0;

    image->was_read = true;
    if (!mrd_space_read(space, image->begin, &ehdr, sizeof(ehdr)) ||
        memcmp(ehdr.e_ident, ELFMAG, SELFMAG) != 0 || ehdr.e_ident[EI_CLASS] != ELFCLASS64 ||
        ehdr.e_phnum > HEADERS_MAX || ehdr.e_phentsize != sizeof(headers[0]) ||
        !mrd_space_read(space, image->begin + ehdr.e_phoff, headers,
                        ehdr.e_phnum * sizeof(headers[0])))
        return;
    for (unsigned i = 0; i < ehdr.e_phnum; i++) {
        if (headers[i].p_type == PT_LOAD && headers[i].p_vaddr < first)
            first = headers[i].p_vaddr;
        if (headers[i].p_type == PT_DYNAMIC)
            dynamic = headers[i].p_vaddr;
        if (headers[i].p_type == PT_GNU_EH_FRAME)
            frames = headers[i].p_vaddr;
    }
    if (first == UINT64_MAX)
        return;
    image->bias = image->begin - (first & ~(uint64_t) 4095);
    image->dynamic = dynamic == 0 ? 0 : dynamic + image->bias;
    image->eh_frame_hdr = frames == 0 ? 0 : frames + image->bias;
}

mrd_image *
mrd_space_image(mrd_space *space, uint64_t at)
{
    for (size_t i = 0; i < space->n; i++) {
        mrd_image *image = &space->images[i];

        if (at < image->begin || at >= image->end)
            continue;
        if (!image->was_read)
            read_headers(space, image);
        return image;
    }
    return NULL;
}

/* Returns the number of symbols, computed from the image's hash table. `hash` is the address of a
 * table in the classic format, `gnu` in the GNU format; 0 means that there is none. */
static uint64_t
count_symbols(const mrd_space *space, uint64_t hash, uint64_t gnu)
{
    uint32_t head[4], *buckets, most = 0, chain = 0;
    uint64_t at;

    if (hash != 0)
        return mrd_space_read(space, hash, head, 8) ? head[1] : 0;
    if (gnu == 0 || !mrd_space_read(space, gnu, head, sizeof(head)) || head[0] == 0 ||
        head[0] > BUCKETS_MAX || (buckets = malloc(head[0] * sizeof(*buckets))) == NULL)
        return 0;
    at = gnu + sizeof(head) + head[2] * sizeof(uint64_t);
    if (mrd_space_read(space, at, buckets, head[0] * sizeof(*buckets)))
        for (uint32_t i = 0; i < head[0]; i++)
            most = buckets[i] > most ? buckets[i] : most;
    free(buckets);
    if (most < head[1])
        return 0;
    at += (head[0] + (uint64_t) (most - head[1])) * sizeof(uint32_t);
    /* the lowest bit of a hash marks the last symbol of a chain */
    for (; (chain & 1) == 0; at += sizeof(chain), most++)
        if (!mrd_space_read(space, at, &chain, sizeof(chain)))
            return 0;
    return most;
}

/* Converts an address that the dynamic section contains to an address in memory. In most images,
 * the loader has already added the bias to the addresses in this section. */
static uint64_t
address_of(const mrd_image *image, uint64_t value)
{
    return value != 0 && value < image->bias ? value + image->bias : value;
}

static void
read_symbols(mrd_space *space, mrd_image *image)
{
    Elf64_Dyn dyn[DYNAMIC_MAX];
    uint64_t symbols = 0, names = 0, hash = 0, gnu = 0, names_len = 0, n, size;
    size_t n_dyn = 0;

    image->has_symbols = true;
    if (image->dynamic == 0)
        return;
    while (n_dyn < DYNAMIC_MAX &&
           mrd_space_read(space, image->dynamic + n_dyn * sizeof(dyn[0]), &dyn[n_dyn],
                          sizeof(dyn[0])) &&
           dyn[n_dyn].d_tag != DT_NULL)
        n_dyn++;
    for (size_t i = 0; i < n_dyn; i++) {
        uint64_t *to = dyn[i].d_tag == DT_SYMTAB     ? &symbols
                       : dyn[i].d_tag == DT_STRTAB   ? &names
                       : dyn[i].d_tag == DT_HASH     ? &hash
                       : dyn[i].d_tag == DT_GNU_HASH ? &gnu
                                                     : NULL;

        if (to != NULL)
            *to = address_of(image, dyn[i].d_un.d_ptr);
        else if (dyn[i].d_tag == DT_STRSZ)
            names_len = dyn[i].d_un.d_val;
    }
    n = count_symbols(space, hash, gnu);
    size = n * sizeof(Elf64_Sym) + names_len + 1;
    if (n == 0 || n > UINT32_MAX || names_len > MRD_SPACE_SYMBOLS ||
        size > MRD_SPACE_SYMBOLS - space->symbol_bytes)
        return;
    space->symbol_bytes += size;
    image->symbols = malloc(n * sizeof(Elf64_Sym));
    image->names = calloc(1, names_len + 1);
    if (image->symbols != NULL && image->names != NULL &&
        mrd_space_read(space, symbols, image->symbols, n * sizeof(Elf64_Sym)) &&
        mrd_space_read(space, names, image->names, names_len)) {
        image->n_symbols = n;
        image->names_len = names_len;
    }
}

static const char *
name_of(const mrd_image *image, const Elf64_Sym *symbol)
{
    return symbol->st_name < image->names_len ? image->names + symbol->st_name : "";
}

/* Returns how many underscores precede a name, at most 8. */
static unsigned
underscores(const char *name)
{
    unsigned n = 0;

    while (n < 8 && name[n] == '_')
        n++;
    return n;
}

/* Returns false after the deadline. `i` counts the passes of the caller's loop: the clock is read
 * only in every 1,024th. */
static bool
in_time(const mrd_space *space, size_t i)
{
    return i % 1024 != 0 || mrd_local_before(mrd_local_now(), space->deadline);
}

uint64_t
mrd_space_find(mrd_space *space, const char *image_name, const char *symbol)
{
    for (size_t i = 0; i < space->n; i++) {
        mrd_image *image = &space->images[i];

        if (strstr(image->name, image_name) == NULL)
            continue;
        image = mrd_space_image(space, image->begin);
        if (!image->has_symbols)
            read_symbols(space, image);
        for (size_t k = 0; k < image->n_symbols && in_time(space, k); k++)
            if (image->symbols[k].st_shndx != SHN_UNDEF &&
                strcmp(name_of(image, &image->symbols[k]), symbol) == 0)
                return image->symbols[k].st_value + image->bias;
    }
    return 0;
}

const char *
mrd_space_function(mrd_space *space, mrd_image *image, uint64_t at)
{
    const char *best = NULL;

    if (!image->has_symbols)
        read_symbols(space, image);
    for (size_t i = 0; i < image->n_symbols && in_time(space, i); i++) {
        const Elf64_Sym *symbol = &image->symbols[i];
        uint64_t begin = symbol->st_value + image->bias;
        const char *name;

        if (symbol->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC ||
            at < begin || at - begin >= symbol->st_size)
            continue;
        name = name_of(image, symbol);
        /* One function may have several names, such as poll and __poll. Prefer the name with the
         * fewest underscores. */
        if (name[0] != '\0' && (best == NULL || underscores(name) < underscores(best)))
            best = name;
    }
    return best;
}
