#include "agent/stack/unwind.h"

#include <string.h>

#if defined(__x86_64__)

#define CODE_MAX 4096u /* maximum size of one call frame record in bytes */
#define DEPTH    8u    /* maximum number of rule sets that DW_CFA_remember_state saves */
#define SP       7
#define RA       16

/* where the caller's value of a register is saved */
typedef enum { SAME, UNDEFINED, AT_CFA, UNKNOWN } rule_kind;

typedef struct {
    rule_kind kind[MRD_UNWIND_REGS];
    int64_t offset[MRD_UNWIND_REGS];
    /* register from which the canonical frame address (CFA) is computed; MRD_UNWIND_REGS if an
     * expression computes the CFA */
    unsigned cfa_reg;
    int64_t cfa_offset;
} rules;

/* A position in a copy of call frame data. Byte `pos` of the copy is at the address begin + pos in
 * the process. */
typedef struct {
    const uint8_t *p;
    size_t len, pos;
    uint64_t begin; /* address of byte 0 in the process */
    bool bad;
} cursor;

/* The call frame information of one function, which consists of a CIE and an FDE record. */
typedef struct {
    uint8_t cie_bytes[CODE_MAX], fde_bytes[CODE_MAX];
    cursor cie, fde; /* readers of the two records, positioned at their instructions */
    uint64_t code_align, begin, size;
    int64_t data_align;
    uint8_t encoding;
    bool has_augmentation;
} description;

/* ---- Reading numbers ---- */

static uint64_t
take(cursor *c, size_t size)
{
    uint64_t value = 0;

    if (c->bad || c->len - c->pos < size) {
        c->bad = true;
        return 0;
    }
    memcpy(&value, c->p + c->pos, size);
    c->pos += size;
    return value;
}

static uint64_t
take_uleb(cursor *c)
{
    uint64_t value = 0;
    uint8_t byte = 0x80;

    for (unsigned shift = 0; (byte & 0x80) != 0 && !c->bad; shift += 7) {
        byte = (uint8_t) take(c, 1);
        if (shift < 64)
            value |= (uint64_t) (byte & 0x7f) << shift;
    }
    return value;
}

static int64_t
take_sleb(cursor *c)
{
    uint64_t value = 0;
    unsigned shift = 0;
    uint8_t byte = 0x80;

    for (; (byte & 0x80) != 0 && !c->bad; shift += 7) {
        byte = (uint8_t) take(c, 1);
        if (shift < 64)
            value |= (uint64_t) (byte & 0x7f) << shift;
    }
    if ((byte & 0x40) != 0 && shift < 64)
        value |= UINT64_MAX << shift;
    return (int64_t) value;
}

static void
skip_block(cursor *c)
{
    uint64_t size = take_uleb(c);

    c->bad = c->bad || size > c->len - c->pos;
    c->pos += c->bad ? 0 : size;
}

/* Reads an address in one of the encodings DW_EH_PE_*. */
static uint64_t
take_address(cursor *c, uint8_t encoding)
{
    uint64_t at = c->begin + c->pos, value;

    switch (encoding & 0x0f) {
    case 0x00: /* absptr */
    case 0x04: /* udata8 */
    case 0x0c: /* sdata8 */
        value = take(c, 8);
        break;
    case 0x03: /* udata4 */
        value = take(c, 4);
        break;
    case 0x0b: /* sdata4 */
        value = (uint64_t) (int64_t) (int32_t) take(c, 4);
        break;
    default:
        c->bad = true;
        return 0;
    }
    if ((encoding & 0x70) == 0x10) /* pcrel */
        value += at;
    else if ((encoding & 0x70) != 0)
        c->bad = true;
    return value;
}

/* ---- Finding the call frame information of a function ---- */

/* Finds the last entry of the sorted table in .eh_frame_hdr that begins at or before `pc`. Returns
 * the address of its FDE record, or 0 if there is none. */
static uint64_t
find_fde(mrd_space *space, const mrd_image *image, uint64_t pc)
{
    uint8_t head[12];
    uint32_t n;
    int32_t entry[2];
    uint64_t low = 0, high;

    /* Only the usual encodings are supported: a 4-byte number of entries, and entries relative to
     * the start of the table. */
    if (image->eh_frame_hdr == 0 || !mrd_space_read(space, image->eh_frame_hdr, head, 12) ||
        head[0] != 1 || head[2] != 0x03 || head[3] != 0x3b || (head[1] & 0x0f) != 0x0b)
        return 0;
    memcpy(&n, head + 8, 4);
    high = n;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;

        if (!mrd_space_read(space, image->eh_frame_hdr + 12 + middle * 8, entry, 8))
            return 0;
        if (image->eh_frame_hdr + (uint64_t) (int64_t) entry[0] <= pc)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || !mrd_space_read(space, image->eh_frame_hdr + 12 + (low - 1) * 8, entry, 8))
        return 0;
    return image->eh_frame_hdr + (uint64_t) (int64_t) entry[1];
}

/* Reads a record of .eh_frame. *ret_id is 0 for a CIE. For an FDE, it is the distance to its
 * CIE. */
static bool
read_record(const mrd_space *space, uint64_t at, uint8_t bytes[CODE_MAX], cursor *ret_cursor,
            uint32_t *ret_id)
{
    uint32_t head[2];

    if (!mrd_space_read(space, at, head, 8) || head[0] < 4 || head[0] - 4 > CODE_MAX ||
        !mrd_space_read(space, at + 8, bytes, head[0] - 4))
        return false;
    *ret_cursor = (cursor){ .p = bytes, .len = head[0] - 4, .begin = at + 8 };
    *ret_id = head[1];
    return true;
}

static bool
read_cie(description *d)
{
    cursor *c = &d->cie;
    char augmentation[8] = "";
    size_t len = 0, end = 0;

    if (take(c, 1) > 4)
        return false;
    while (len < sizeof(augmentation) && (augmentation[len] = (char) take(c, 1)) != '\0')
        len++;
    if (c->bad || len == sizeof(augmentation) || (len > 0 && augmentation[0] != 'z'))
        return false;
    d->code_align = take_uleb(c);
    d->data_align = take_sleb(c);
    if (take_uleb(c) != RA)
        return false;
    d->has_augmentation = len > 0;
    if (len > 0) {
        uint64_t size = take_uleb(c);

        end = c->pos + size;
        if (c->bad || size > c->len - c->pos)
            return false;
    }
    for (size_t i = 1; i < len; i++) {
        if (augmentation[i] == 'R') {
            d->encoding = (uint8_t) take(c, 1);
        } else if (augmentation[i] == 'L') {
            (void) take(c, 1);
        } else if (augmentation[i] == 'P') {
            uint8_t encoding = (uint8_t) take(c, 1);

            (void) take_address(c, encoding & 0x0f);
        } else {
            /* for example the frame of a signal handler, whose pc does not follow a call */
            return false;
        }
    }
    if (len > 0)
        c->pos = end;
    return !c->bad;
}

static bool
describe(mrd_space *space, const mrd_image *image, uint64_t pc, description *d)
{
    uint64_t at = find_fde(space, image, pc);
    uint32_t id;

    if (at == 0 || !read_record(space, at, d->fde_bytes, &d->fde, &id) || id == 0 ||
        !read_record(space, at + 4 - id, d->cie_bytes, &d->cie, &id) || id != 0 || !read_cie(d))
        return false;
    d->begin = take_address(&d->fde, d->encoding);
    d->size = take_address(&d->fde, d->encoding & 0x0f);
    if (d->has_augmentation) {
        uint64_t size = take_uleb(&d->fde);

        if (size > d->fde.len - d->fde.pos)
            return false;
        d->fde.pos += size;
    }
    return !d->fde.bad && pc >= d->begin && pc - d->begin < d->size;
}

/* ---- Interpreting the call frame instructions ---- */

static void
set_rule(rules *r, uint64_t reg, rule_kind kind, int64_t offset)
{
    if (reg >= MRD_UNWIND_REGS)
        return;
    r->kind[reg] = kind;
    r->offset[reg] = offset;
}

static void
set_cfa(rules *r, uint64_t reg)
{
    r->cfa_reg = reg < MRD_UNWIND_REGS ? (unsigned) reg : MRD_UNWIND_REGS;
}

/* Returns the offset of a register: the factored number in the table times data_align. The table is
 * not trusted, so the product may wrap around. */
static int64_t
times(uint64_t factored, const description *d)
{
    return (int64_t) (factored * (uint64_t) d->data_align);
}

/* Interprets an instruction that has its number in the low six bits. Returns false if the
 * instruction is unknown. The caller handles the instructions that advance the address. */
static bool
apply(cursor *c, const description *d, rules *r, const rules *first, uint8_t code)
{
    uint64_t reg;

    switch (code) {
    case 0x00: /* nop */
        return true;
    case 0x05: /* offset_extended */
        reg = take_uleb(c);
        set_rule(r, reg, AT_CFA, times(take_uleb(c), d));
        return true;
    case 0x06: /* restore_extended */
        reg = take_uleb(c);
        if (reg < MRD_UNWIND_REGS)
            set_rule(r, reg, first->kind[reg], first->offset[reg]);
        return true;
    case 0x07: /* undefined */
        set_rule(r, take_uleb(c), UNDEFINED, 0);
        return true;
    case 0x08: /* same_value */
        set_rule(r, take_uleb(c), SAME, 0);
        return true;
    case 0x09: /* register */
        set_rule(r, take_uleb(c), UNKNOWN, 0);
        (void) take_uleb(c);
        return true;
    case 0x0c: /* def_cfa */
        set_cfa(r, take_uleb(c));
        r->cfa_offset = (int64_t) take_uleb(c);
        return true;
    case 0x0d: /* def_cfa_register */
        set_cfa(r, take_uleb(c));
        return true;
    case 0x0e: /* def_cfa_offset */
        r->cfa_offset = (int64_t) take_uleb(c);
        return true;
    case 0x0f: /* def_cfa_expression */
        r->cfa_reg = MRD_UNWIND_REGS;
        skip_block(c);
        return true;
    case 0x10: /* expression */
    case 0x16: /* val_expression */
        set_rule(r, take_uleb(c), UNKNOWN, 0);
        skip_block(c);
        return true;
    case 0x11: /* offset_extended_sf */
        reg = take_uleb(c);
        set_rule(r, reg, AT_CFA, times((uint64_t) take_sleb(c), d));
        return true;
    case 0x12: /* def_cfa_sf */
        set_cfa(r, take_uleb(c));
        r->cfa_offset = times((uint64_t) take_sleb(c), d);
        return true;
    case 0x13: /* def_cfa_offset_sf */
        r->cfa_offset = times((uint64_t) take_sleb(c), d);
        return true;
    case 0x2e: /* GNU_args_size */
        (void) take_uleb(c);
        return true;
    default:
        return false;
    }
}

/* Interprets instructions up to the address `pc`. Returns false at an unknown instruction. */
static bool
run(cursor *c, const description *d, uint64_t pc, rules *r, const rules *first)
{
    rules kept[DEPTH];
    unsigned depth = 0;
    uint64_t at = d->begin;

    while (c->pos < c->len && !c->bad) {
        uint8_t code = (uint8_t) take(c, 1), low = code & 0x3f;
        uint64_t forward = 0;

        switch (code >> 6) {
        case 1: /* advance_loc */
            forward = low;
            break;
        case 2: /* offset */
            set_rule(r, low, AT_CFA, times(take_uleb(c), d));
            continue;
        case 3: /* restore */
            if (low < MRD_UNWIND_REGS)
                set_rule(r, low, first->kind[low], first->offset[low]);
            continue;
        default:
            if (code >= 0x02 && code <= 0x04) { /* advance_loc1, 2 and 4 */
                forward = take(c, (size_t) 1 << (code - 2));
            } else if (code == 0x0a && depth < DEPTH) { /* remember_state */
                kept[depth++] = *r;
                continue;
            } else if (code == 0x0b && depth > 0) { /* restore_state */
                *r = kept[--depth];
                continue;
            } else if (apply(c, d, r, first, code)) {
                continue;
            } else {
                return false;
            }
        }
        at += forward * d->code_align;
        if (at > pc)
            break;
    }
    return !c->bad;
}

/* ---- Going to the caller's frame ---- */

void
mrd_unwind_begin(mrd_unwind *unwind, uint64_t pc, uint64_t sp)
{
    *unwind = (mrd_unwind){ .pc = pc, .known = 1u << SP };
    unwind->regs[SP] = sp;
}

bool
mrd_unwind_next(mrd_unwind *unwind, mrd_space *space, bool inner)
{
    /* A call may be the last instruction of a function. Its return address is then outside of the
     * function, so look for the address before it. */
    uint64_t pc = inner ? unwind->pc : unwind->pc - 1, cfa;
    const mrd_image *image = mrd_space_image(space, pc);
    mrd_unwind from = *unwind;
    description d = { .encoding = 0 };
    rules first = { .cfa_reg = MRD_UNWIND_REGS }, r;

    if (image == NULL || !describe(space, image, pc, &d) ||
        !run(&d.cie, &d, UINT64_MAX, &first, &first))
        return false;
    r = first;
    if (!run(&d.fde, &d, pc, &r, &first) || r.cfa_reg == MRD_UNWIND_REGS ||
        (from.known >> r.cfa_reg & 1) == 0 || r.kind[RA] != AT_CFA)
        return false;
    cfa = from.regs[r.cfa_reg] + (uint64_t) r.cfa_offset;
    for (unsigned i = 0; i < MRD_UNWIND_REGS; i++) {
        if (r.kind[i] == SAME)
            continue;
        unwind->known &= ~(1u << i);
        if (r.kind[i] == AT_CFA && mrd_space_read(space, cfa + (uint64_t) r.offset[i],
                                                  &unwind->regs[i], sizeof(unwind->regs[i])))
            unwind->known |= 1u << i;
    }
    unwind->regs[SP] = cfa;
    unwind->known |= 1u << SP;
    unwind->pc = unwind->regs[RA];
    /* The stack grows down, so the frame of the caller has a higher address. */
    return (unwind->known >> RA & 1) != 0 && unwind->pc != 0 && cfa > from.regs[SP];
}

#else

void
mrd_unwind_begin(mrd_unwind *unwind, uint64_t pc, uint64_t sp)
{
    (void) sp;
    *unwind = (mrd_unwind){ .pc = pc };
}

bool
mrd_unwind_next(mrd_unwind *unwind, mrd_space *space, bool inner)
{
    (void) unwind;
    (void) space;
    (void) inner;
    return false;
}

#endif
