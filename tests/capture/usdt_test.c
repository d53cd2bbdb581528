/* Tests the library's USDT probes, which tracing tools can attach to: their notes in the library's
 * file, and the data that a tool with breakpoints reads at a probe. */
#include <elf.h>
#include <link.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "capture/api/probes.h"
#include "capture/meridian.h"
#include "tests/check.h"
#include "tests/wait.h"

typedef struct {
    char name[16], args[64];
    uint64_t place, semaphore;
} probe;

typedef struct {
    probe v[16];
    size_t n;
    bool writable; /* all semaphores are in writable memory */
} probes;

static uint8_t *
read_all(const char *path, size_t *ret_n)
{
    FILE *f = fopen(path, "rb");
    uint8_t *p = malloc(64u << 20);

    *ret_n = f == NULL || p == NULL ? 0 : fread(p, 1, 64u << 20, f);
    if (f != NULL)
        fclose(f);
    return p;
}

static void
take_notes(const uint8_t *p, size_t n, probes *to)
{
    for (size_t at = 0; at + 12 <= n;) {
        uint32_t head[3]; /* lengths of owner and description, type */
        const char *desc;
        probe *q = &to->v[to->n];

        memcpy(head, p + at, sizeof(head));
        desc = (const char *) p + at + 12 + ((head[0] + 3) & ~3u);
        if (head[2] == 3 && strcmp((const char *) p + at + 12, "stapsdt") == 0 && to->n < 16) {
            const char *name = desc + 24 + strlen(desc + 24) + 1;

            CHECK_TEXT(desc + 24, "meridian");
            memcpy(&q->place, desc, 8);
            memcpy(&q->semaphore, desc + 16, 8);
            snprintf(q->name, sizeof(q->name), "%s", name);
            snprintf(q->args, sizeof(q->args), "%s", name + strlen(name) + 1);
            to->n++;
        }
        at += 12 + ((head[0] + 3) & ~3u) + ((head[1] + 3) & ~3u);
    }
}

static probes
probes_of(const char *path)
{
    probes found = { .writable = true };
    size_t n;
    uint8_t *p = read_all(path, &n);
    const Elf64_Ehdr *e = (const Elf64_Ehdr *) (const void *) p;
    const Elf64_Shdr *s;
    const Elf64_Phdr *seg;

    if (n > sizeof(*e) && memcmp(p, ELFMAG, SELFMAG) == 0) {
        s = (const Elf64_Shdr *) (const void *) (p + e->e_shoff);
        seg = (const Elf64_Phdr *) (const void *) (p + e->e_phoff);
        for (unsigned i = 0; i < e->e_shnum; i++)
            if (strcmp((const char *) p + s[e->e_shstrndx].sh_offset + s[i].sh_name,
                       ".note.stapsdt") == 0)
                take_notes(p + s[i].sh_offset, s[i].sh_size, &found);
        for (size_t i = 0; i < found.n; i++) {
            bool writable = false;

            for (unsigned k = 0; k < e->e_phnum; k++)
                writable =
                    writable || (seg[k].p_type == PT_LOAD && (seg[k].p_flags & PF_W) != 0 &&
                                 found.v[i].semaphore >= seg[k].p_vaddr &&
                                 found.v[i].semaphore + 2 <= seg[k].p_vaddr + seg[k].p_memsz);
            found.writable = found.writable && writable;
        }
    }
    free(p);
    return found;
}

static const probe *
named(const probes *p, const char *name)
{
    for (size_t i = 0; i < p->n; i++)
        if (strcmp(p->v[i].name, name) == 0)
            return &p->v[i];
    return NULL;
}

#define NAME(x) #x,
static const char *const names[] = {
#if MRD_PROBES
    MRD_PROBE_LIST(NAME)
#endif
        NULL
};

static void
check_all(const char *path)
{
    probes p = probes_of(path);

    CHECK_INT(p.n, MRD_PROBES ? 5 : 0);
    CHECK(p.writable);
    for (size_t i = 0; names[i] != NULL; i++) {
        const probe *q = named(&p, names[i]);

        CHECK_ROW(names[i], q != NULL && q->place != 0 && q->semaphore != 0 && q->args[0] == '8');
        for (size_t k = 0; k < i && q != NULL; k++)
            CHECK_ROW(names[i], named(&p, names[k])->semaphore != q->semaphore);
    }
}

TEST(the_library_has_its_notes)
{
    char path[600];

    snprintf(path, sizeof(path), "%s/lib/libmeridian.so", getenv("MERIDIAN_BUILD"));
    check_all(path);
    check_all("/proc/self/exe");
}

#if defined(__x86_64__)

static probes own;
static uint64_t base;
static struct {
    const probe *of;
    char name[64];
    int64_t number;
} hits[64];
static volatile size_t n_hits;

static int
find_base(struct dl_phdr_info *info, size_t size, void *self)
{
    (void) size;
    (void) self;
    base = info->dlpi_addr; /* the program comes first */
    return 1;
}

/* Reads an argument such as "8@%rbx" from a register, like the kernel. */
static uint64_t
argument(const char *text, const greg_t *r)
{
    static const struct {
        const char *name;
        int reg;
    } regs[] = { { "%rax", REG_RAX }, { "%rbx", REG_RBX }, { "%rcx", REG_RCX }, { "%rdx", REG_RDX },
                 { "%rsi", REG_RSI }, { "%rdi", REG_RDI }, { "%rbp", REG_RBP }, { "%r8", REG_R8 },
                 { "%r9", REG_R9 },   { "%r10", REG_R10 }, { "%r11", REG_R11 }, { "%r12", REG_R12 },
                 { "%r13", REG_R13 }, { "%r14", REG_R14 }, { "%r15", REG_R15 } };
    const char *at = strchr(text, '@') + 1;
    size_t n = strcspn(at, " ");

    for (size_t i = 0; i < sizeof(regs) / sizeof(regs[0]); i++)
        if (strlen(regs[i].name) == n && strncmp(regs[i].name, at, n) == 0)
            return (uint64_t) r[regs[i].reg];
    return 0;
}

/* Imitates the kernel's uprobe: records the probe with its arguments and continues after the
 * nop. */
static void
on_trap(int sig, siginfo_t *info, void *context)
{
    const greg_t *r = ((ucontext_t *) context)->uc_mcontext.gregs;

    (void) sig;
    (void) info;
    for (size_t i = 0; i < own.n && n_hits < 64; i++)
        if (own.v[i].place + base + 1 == (uint64_t) r[REG_RIP]) {
            const char *second = strchr(own.v[i].args, ' ');

            hits[n_hits].of = &own.v[i];
            snprintf(hits[n_hits].name, sizeof(hits[0].name), "%s",
                     (const char *) argument(own.v[i].args, r));
            hits[n_hits].number = second == NULL ? 0 : (int64_t) argument(second, r);
            n_hits = n_hits + 1;
        }
}

static void
attach(bool on)
{
    for (size_t i = 0; i < own.n; i++)
        *(volatile unsigned short *) (own.v[i].semaphore + base) = on; /* as the kernel counts */
}

static void
work(void)
{
    mrd_domain *d = mrd_domain_create("usdt");
    mrd_scope outer, inner;
    mrd_counter *c = mrd_counter_create(d, "depth", "count", 7);

    mrd_scope_begin(&outer, d, "outer");
    mrd_scope_begin(&inner, d, "inner");
    test_pace(2000);
    mrd_scope_end(&inner);
    mrd_instant(d, "here", MRD_SCOPE_THREAD, NULL, 0);
    mrd_counter_set(c, 42);
    mrd_scope_end(&outer);
}

/* ThreadSanitizer has no shadow memory for code, so it must not instrument this access. */
__attribute__((no_sanitize("thread"), noinline)) static void
poke(volatile uint8_t *at, uint8_t value)
{
    *at = value;
}

__attribute__((no_sanitize("thread"), noinline)) static uint8_t
peek(const volatile uint8_t *at)
{
    return *at;
}

TEST(a_tool_sees_what_is_recorded_and_nothing_when_it_does_not_look)
{
    static const struct {
        const char *probe, *name;
    } want[] = { { "begin", "outer" },  { "begin", "inner" },   { "end", "inner" },
                 { "instant", "here" }, { "counter", "depth" }, { "end", "outer" } };
    struct sigaction act = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };
    long page = sysconf(_SC_PAGESIZE);
    size_t at = 0;

    own = probes_of("/proc/self/exe");
    dl_iterate_phdr(find_base, NULL);
    REQUIRE(own.n == 5 && mrd_set_state(1) == MERIDIAN_OK);
    REQUIRE(sigaction(SIGTRAP, &act, NULL) == 0);
    for (size_t i = 0; i < own.n; i++) {
        uint8_t *nop = (uint8_t *) (own.v[i].place + base);
        void *from = (void *) ((uintptr_t) nop & ~(uintptr_t) (page - 1));

        CHECK_ROW(own.v[i].name, peek(nop) == 0x90);
        if (mprotect(from, (size_t) page * 2, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
            return; /* a system that forbids this forbids debuggers as well */
        poke(nop, 0xcc);
    }
    work();
    CHECK_INT(n_hits, 0); /* no tool traces the probe, so not even the nop is executed */
    attach(true);
    work();
    attach(false);
    work();
    /* the value of the counter at its creation is arbitrary */
    for (size_t i = 0; i < n_hits; i++) {
        if (at < 6 && strcmp(hits[i].of->name, want[at].probe) == 0 &&
            strcmp(hits[i].name, want[at].name) == 0)
            at++;
        if (strcmp(hits[i].of->name, "counter") == 0 && i + 2 == n_hits)
            CHECK_INT(hits[i].number, 42);
        if (strcmp(hits[i].of->name, "end") == 0)
            CHECK_ROW(hits[i].name, hits[i].number >= 2000000 && hits[i].number < 60000000000);
    }
    CHECK_INT(at, 6);
    CHECK(n_hits <= 8);
}

#endif

TEST_MAIN()
