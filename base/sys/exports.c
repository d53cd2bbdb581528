#include "base/sys/exports.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    const uint8_t *p;
    size_t len;
    Elf64_Shdr symbols, names, versions, definitions;
} image;

/* Returns a pointer to `len` bytes at offset `off` of the file, or NULL if they lie beyond its
 * end. */
static const void *
at(const image *m, uint64_t off, uint64_t len)
{
    return off > m->len || len > m->len - off ? NULL : m->p + off;
}

/* Returns the text at an offset of the string table. NULL if it does not end within the table. */
static const char *
text_at(const image *m, uint64_t off)
{
    const char *table = at(m, m->names.sh_offset, m->names.sh_size);

    if (table == NULL || off >= m->names.sh_size ||
        memchr(table + off, '\0', m->names.sh_size - off) == NULL)
        return NULL;
    return table + off;
}

static bool
section(const image *m, const Elf64_Ehdr *head, unsigned i, Elf64_Shdr *ret)
{
    const void *p = i < head->e_shnum && head->e_shentsize == sizeof(*ret)
                        ? at(m, head->e_shoff + (uint64_t) i * sizeof(*ret), sizeof(*ret))
                        : NULL;

    if (p != NULL)
        memcpy(ret, p, sizeof(*ret));
    return p != NULL;
}

static mrd_err
find_sections(image *m, mrd_why *why)
{
    Elf64_Ehdr head;
    Elf64_Shdr Shdr;

    if (m->len < sizeof(head))
        return mrd_why_set(why, MRD_FORMAT, 0, "not a shared library");
    memcpy(&head, m->p, sizeof(head));
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64 ||
        head.e_ident[EI_DATA] != ELFDATA2LSB || head.e_type != ET_DYN)
        return mrd_why_set(why, MRD_FORMAT, 0, "not a shared library");
    for (unsigned i = 0; i < head.e_shnum; i++) {
        if (!section(m, &head, i, &Shdr))
            return mrd_why_set(why, MRD_CORRUPT, 0, "section %u lies outside the file", i);
        if (Shdr.sh_type == SHT_DYNSYM && section(m, &head, Shdr.sh_link, &m->names))
            m->symbols = Shdr;
        else if (Shdr.sh_type == SHT_GNU_versym)
            m->versions = Shdr;
        else if (Shdr.sh_type == SHT_GNU_verdef)
            m->definitions = Shdr;
    }
    if (m->symbols.sh_type != SHT_DYNSYM || m->symbols.sh_entsize != sizeof(Elf64_Sym))
        return mrd_why_set(why, MRD_FORMAT, 0, "no table of dynamic symbols");
    return MRD_OK;
}

/* Returns the name of a version, or "". */
static const char *
version_name(const image *m, unsigned number)
{
    uint64_t off = m->definitions.sh_offset;

    for (unsigned i = 0; number > 1 && i < m->definitions.sh_info && i < 4096; i++) {
        const void *p = at(m, off, sizeof(Elf64_Verdef));
        Elf64_Verdef def;
        Elf64_Verdaux aux;

        if (p == NULL)
            break;
        memcpy(&def, p, sizeof(def));
        if (def.vd_ndx == number && (p = at(m, off + def.vd_aux, sizeof(aux))) != NULL) {
            const char *name;

            memcpy(&aux, p, sizeof(aux));
            name = text_at(m, aux.vda_name);
            return name == NULL ? "" : name;
        }
        if (def.vd_next == 0)
            break;
        off += def.vd_next;
    }
    return "";
}

static const char *
version_of(const image *m, uint64_t symbol)
{
    const void *p =
        m->versions.sh_size / sizeof(Elf64_Half) > symbol
            ? at(m, m->versions.sh_offset + symbol * sizeof(Elf64_Half), sizeof(Elf64_Half))
            : NULL;
    Elf64_Half number = 0;

    if (p != NULL)
        memcpy(&number, p, sizeof(number));
    return version_name(m, number & 0x7fffu);
}

static mrd_err
each(const image *m, const char *prefix,
     void (*call)(void *self, const char *name, const char *version), void *self, mrd_why *why)
{
    uint64_t n = m->symbols.sh_size / sizeof(Elf64_Sym);
    const uint8_t *table = at(m, m->symbols.sh_offset, m->symbols.sh_size);

    if (table == NULL)
        return mrd_why_set(why, MRD_CORRUPT, 0, "the table of symbols lies outside the file");
    for (uint64_t i = 0; i < n; i++) {
        Elf64_Sym symbol;
        const char *name;

        memcpy(&symbol, table + i * sizeof(symbol), sizeof(symbol));
        if (symbol.st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol.st_info) != STT_FUNC ||
            ELF64_ST_BIND(symbol.st_info) == STB_LOCAL ||
            (name = text_at(m, symbol.st_name)) == NULL ||
            strncmp(name, prefix, strlen(prefix)) != 0)
            continue;
        call(self, name, version_of(m, i));
    }
    return MRD_OK;
}

mrd_err
mrd_exports_each(const char *path, const char *prefix,
                 void (*call)(void *self, const char *name, const char *version), void *self,
                 mrd_why *why)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    image m = { 0 };
    struct stat st;
    mrd_err err;
    void *p;

    if (fd < 0)
        return mrd_why_set(why, MRD_IO, errno, "%s", path);
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size <= 0) {
        close(fd);
        return mrd_why_set(why, MRD_FORMAT, 0, "%s is not a shared library", path);
    }
    p = mmap(NULL, (size_t) st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (p == MAP_FAILED)
        return mrd_why_set(why, MRD_IO, errno, "%s", path);
    m.p = p;
    m.len = (size_t) st.st_size;
    if ((err = find_sections(&m, why)) == MRD_OK)
        err = each(&m, prefix, call, self, why);
    munmap(p, m.len);
    return err;
}
