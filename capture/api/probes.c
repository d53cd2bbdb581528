#include "capture/api/probes.h"

#if MRD_PROBES

#include "capture/api/names.h"

/* Defines the semaphore of a probe. Tools find it through the notes in .note.stapsdt. */
#define SEMAPHORE(name)                                                                            \
    volatile unsigned short mrd_probe_##name##_semaphore                                           \
        __attribute__((section(".probes"), used, visibility("hidden")));
MRD_PROBE_LIST(SEMAPHORE)

/*
 * Places a probe: one nop instruction and an ELF note that describes the probe. The note has three
 * addresses, provider, name, and the locations of the arguments as the compiler chose them. The
 * three addresses point to the nop, the base section (from which a tool computes how far prelink
 * moved the library), and the semaphore.
 */
#define PLACE(name, operands, ...)                                                                 \
    __asm__ volatile("990: nop\n"                                                                  \
                     ".pushsection .note.stapsdt,\"\",\"note\"\n"                                  \
                     ".balign 4\n"                                                                 \
                     ".4byte 992f-991f, 994f-993f, 3\n"                                            \
                     "991: .asciz \"stapsdt\"\n"                                                   \
                     "992: .balign 4\n"                                                            \
                     "993: .8byte 990b\n"                                                          \
                     ".8byte _.stapsdt.base\n"                                                     \
                     ".8byte mrd_probe_" #name "_semaphore\n"                                      \
                     ".asciz \"meridian\"\n"                                                       \
                     ".asciz \"" #name "\"\n"                                                      \
                     ".asciz \"" operands "\"\n"                                                   \
                     "994: .balign 4\n"                                                            \
                     ".popsection\n" ::__VA_ARGS__)

/* Defines the section .stapsdt.base, which exists once in the library. */
__asm__(".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
        ".weak _.stapsdt.base\n"
        ".hidden _.stapsdt.base\n"
        "_.stapsdt.base: .space 1\n"
        ".size _.stapsdt.base, 1\n"
        ".popsection\n");

static const char *
name_of(const mrd_rec_what *what)
{
    size_t len;
    const char *text = what->name != 0 ? mrd_names_text(what->name, &len) : what->name_text;

    return text == NULL ? "" : text;
}

static int64_t
ns_of(uint64_t ticks)
{
    uint64_t now = mrd_rec_now();

    return ticks > now ? 0 : mrd_rec_raw_ns(now) - mrd_rec_raw_ns(now - ticks);
}

__attribute__((noinline, cold)) void
mrd_probe_begin(const mrd_rec_what *what, uint64_t unused)
{
    (void) unused;
    PLACE(begin, "8@%0", "r"(name_of(what)));
}

__attribute__((noinline, cold)) void
mrd_probe_end(const mrd_rec_what *what, uint64_t ticks)
{
    const char *name = name_of(what);

    PLACE(end, "8@%0 -8@%1", "r"(name), "r"(ns_of(ticks)));
}

__attribute__((noinline, cold)) void
mrd_probe_span(const mrd_rec_what *what, uint64_t ticks)
{
    const char *name = name_of(what);

    PLACE(span, "8@%0 -8@%1", "r"(name), "r"(ns_of(ticks)));
}

__attribute__((noinline, cold)) void
mrd_probe_instant(const mrd_rec_what *what, uint64_t unused)
{
    (void) unused;
    PLACE(instant, "8@%0", "r"(name_of(what)));
}

__attribute__((noinline, cold)) void
mrd_probe_counter(const mrd_rec_what *what, uint64_t value)
{
    const char *name = name_of(what);

    PLACE(counter, "8@%0 8@%1", "r"(name), "r"(value));
}

#endif
