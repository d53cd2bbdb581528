#include "agent/stack/python.h"

#include "base/obj.h"

#define INTERPRETERS_MAX 8u
#define THREADS_MAX      1024u
#define FRAMES_MAX       512u
/* maximum number of frames shown per thread; only the innermost ones are shown */
#define SHOWN_MAX  24u
#define TEXT_MAX   200u
#define LINES_MAX  16384u
#define OWNED_BY_C 3

/* offsets of members in Python objects, equal in all supported releases */
enum { OBJECT_TYPE = 8, BYTES_SIZE = 16, BYTES_TEXT = 32, TEXT_LENGTH = 16, TEXT_STATE = 32 };

static const mrd_python releases[] = {
    { .version = 0x030b0000,
      .interpreters = 40,
      .threads = 16,
      .next_thread = 8,
      .thread_id = 160,
      .frame = 56,
      .c_frame = 8,
      .previous = 48,
      .instruction = 56,
      .code = 32,
      .owner = 69,
      .filename = 112,
      .qualname = 128,
      .lines = 136,
      .first_line = 72,
      .bytes = 184,
      .ascii = 48,
      .wide = 72 },
    { .version = 0x030c0000,
      .interpreters = 40,
      .threads = 72,
      .next_thread = 8,
      .thread_id = 144,
      .frame = 56,
      .c_frame = 0,
      .previous = 8,
      .instruction = 56,
      .code = 0,
      .owner = 70,
      .filename = 112,
      .qualname = 128,
      .lines = 136,
      .first_line = 68,
      .bytes = 192,
      .ascii = 40,
      .wide = 56 },
    { .version = 0x030d0000, .c_frame = UINT64_MAX, .ascii = 40, .wide = 56 },
};

/* ---- Offsets of members ---- */

static uint64_t
number_at(const mrd_space *space, uint64_t at)
{
    uint64_t value;

    return at != 0 && mrd_space_read(space, at, &value, sizeof(value)) ? value : 0;
}

/* Returns true if the object at this address has exactly this type. */
static bool
is_a(const mrd_space *space, uint64_t at, uint64_t type)
{
    return at != 0 && number_at(space, at + OBJECT_TYPE) == type;
}

/* Reads the offsets of members that CPython 3.13 publishes at the beginning of its state
 * (_Py_DebugOffsets). */
static bool
read_positions(const mrd_space *space, mrd_python *python)
{
    const struct {
        uint64_t at, *to;
    } rows[] = {
        { 40, &python->interpreters }, { 64, &python->next_interpreter },
        { 72, &python->threads },      { 168, &python->next_thread },
        { 184, &python->frame },       { 200, &python->thread_id },
        { 232, &python->previous },    { 248, &python->instruction },
        { 240, &python->code },        { 264, &python->owner },
        { 280, &python->filename },    { 296, &python->qualname },
        { 304, &python->lines },       { 312, &python->first_line },
        { 344, &python->bytes },
    };
    char cookie[8];

    if (!mrd_space_read(space, python->runtime, cookie, sizeof(cookie)) ||
        memcmp(cookie, "xdebugpy", sizeof(cookie)) != 0 ||
        number_at(space, python->runtime + 8) >> 16 != python->version >> 16 ||
        /* a build without a global lock is not supported */
        number_at(space, python->runtime + 16) != 0)
        return false;
    for (size_t i = 0; i < MRD_COUNT(rows); i++)
        *rows[i].to = number_at(space, python->runtime + rows[i].at);
    return true;
}

void
mrd_python_find(mrd_space *space, mrd_python *ret_python)
{
    uint64_t version = number_at(space, mrd_space_find(space, "python", "Py_Version"));
    uint64_t runtime = mrd_space_find(space, "python", "_PyRuntime");

    *ret_python = (mrd_python){ .found = runtime != 0 };
    for (size_t i = 0; i < MRD_COUNT(releases) && runtime != 0; i++) {
        if (releases[i].version >> 16 != version >> 16)
            continue;
        *ret_python = releases[i];
        ret_python->found = true;
        ret_python->version = (uint32_t) version;
        ret_python->code_type = mrd_space_find(space, "python", "PyCode_Type");
        ret_python->str_type = mrd_space_find(space, "python", "PyUnicode_Type");
        ret_python->bytes_type = mrd_space_find(space, "python", "PyBytes_Type");
        if (ret_python->code_type != 0 && ret_python->str_type != 0 && ret_python->bytes_type != 0)
            ret_python->runtime = runtime;
        if (version >> 16 == 0x030d && !read_positions(space, ret_python))
            ret_python->runtime = 0;
    }
}

/* ---- Texts and lines ---- */

/* Appends a character as UTF-8. Control characters become '?', so that a text stays one line. */
static void
put_char(mrd_buf *to, uint32_t c)
{
    uint8_t bytes[4];
    size_t n = 1;

    if (c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0xd800 && c < 0xe000) || c > 0x10ffff)
        c = '?';
    if (c < 0x80) {
        bytes[0] = (uint8_t) c;
    } else if (c < 0x800) {
        bytes[0] = (uint8_t) (0xc0 | c >> 6);
        bytes[1] = (uint8_t) (0x80 | (c & 0x3f));
        n = 2;
    } else if (c < 0x10000) {
        bytes[0] = (uint8_t) (0xe0 | c >> 12);
        bytes[1] = (uint8_t) (0x80 | (c >> 6 & 0x3f));
        bytes[2] = (uint8_t) (0x80 | (c & 0x3f));
        n = 3;
    } else {
        bytes[0] = (uint8_t) (0xf0 | c >> 18);
        bytes[1] = (uint8_t) (0x80 | (c >> 12 & 0x3f));
        bytes[2] = (uint8_t) (0x80 | (c >> 6 & 0x3f));
        bytes[3] = (uint8_t) (0x80 | (c & 0x3f));
        n = 4;
    }
    mrd_buf_add(to, bytes, n);
}

/* Appends a str object. Only the end of a long text is shown, because the end of a path is the file
 * name. Returns false if this is not a str object. */
static bool
put_text(const mrd_python *python, const mrd_space *space, uint64_t at, mrd_buf *to)
{
    uint8_t bytes[4 * TEXT_MAX];
    uint32_t state;
    uint64_t length = number_at(space, at + TEXT_LENGTH), width, shown;

    /* the bits of `state`, from the lowest: interned (2), size of a character (3), compact (1),
     * ascii (1) */
    if (!is_a(space, at, python->str_type) ||
        !mrd_space_read(space, at + TEXT_STATE, &state, sizeof(state)) || length > 1u << 20)
        return false;
    width = state >> 2 & 7;
    if ((width != 1 && width != 2 && width != 4) || (state >> 5 & 1) == 0)
        return false;
    shown = length < TEXT_MAX ? length : TEXT_MAX;
    at += ((state >> 6 & 1) != 0 ? python->ascii : python->wide) + (length - shown) * width;
    if (!mrd_space_read(space, at, bytes, shown * width))
        return false;
    if (shown < length)
        mrd_buf_text(to, "...");
    for (size_t i = 0; i < shown; i++) {
        uint32_t c = 0;

        memcpy(&c, bytes + i * width, width);
        put_char(to, c);
    }
    return true;
}

/* Returns the line of the instruction with this offset in bytes, from the location table of a code
 * object (PEP 626, Objects/locations.md of CPython). 0 if it has none. */
static int64_t
line_of(const uint8_t *table, size_t len, int64_t line, uint64_t offset)
{
    uint64_t at = 0;

    for (size_t i = 0; i < len;) {
        unsigned kind = table[i] >> 3 & 15, shift = 0;
        uint64_t size = ((table[i] & 7u) + 1) * 2, delta = 0;

        if (kind == 13 || kind == 14) { /* a signed number follows, with its sign in bit 0 */
            for (size_t k = i + 1; k < len && shift < 32; k++, shift += 6) {
                delta |= (uint64_t) (table[k] & 0x3f) << shift;
                if ((table[k] & 0x40) == 0)
                    break;
            }
            line += (delta & 1) != 0 ? -(int64_t) (delta >> 1) : (int64_t) (delta >> 1);
        } else if (kind >= 10 && kind <= 12) {
            line += (int64_t) kind - 10;
        }
        if (offset >= at && offset < at + size)
            return kind == 15 ? 0 : line;
        at += size;
        do
            i++;
        while (i < len && (table[i] & 0x80) == 0); /* the first byte of each entry has this bit */
    }
    return 0;
}

static int64_t
line_at(const mrd_python *python, const mrd_space *space, uint64_t code, uint64_t instruction)
{
    uint64_t lines = number_at(space, code + python->lines);
    uint64_t size = number_at(space, lines + BYTES_SIZE);
    uint8_t table[LINES_MAX];
    int32_t first;

    if (instruction < code + python->bytes || !is_a(space, lines, python->bytes_type) ||
        !mrd_space_read(space, code + python->first_line, &first, sizeof(first)))
        return 0;
    size = size < sizeof(table) ? size : sizeof(table);
    if (!mrd_space_read(space, lines + BYTES_TEXT, table, size))
        return 0;
    return line_of(table, size, first, instruction - code - python->bytes);
}

/* ---- Frames ---- */

/* Returns the address of the thread's state in the interpreter; 0 if this is not a Python
 * thread. */
static uint64_t
find_thread(const mrd_python *python, const mrd_space *space, int64_t thread_id)
{
    uint64_t interpreter = number_at(space, python->runtime + python->interpreters);

    for (unsigned i = 0; i < INTERPRETERS_MAX && interpreter != 0; i++) {
        uint64_t thread = number_at(space, interpreter + python->threads);

        for (unsigned k = 0; k < THREADS_MAX && thread != 0; k++) {
            if (number_at(space, thread + python->thread_id) == (uint64_t) thread_id)
                return thread;
            thread = number_at(space, thread + python->next_thread);
        }
        interpreter = number_at(space, interpreter + python->next_interpreter);
    }
    return 0;
}

/* Appends one frame. Returns false, and appends nothing, if this is no frame. */
static bool
put_frame(const mrd_python *python, const mrd_space *space, uint64_t frame, uint64_t code,
          mrd_buf *to)
{
    size_t len = to->len;
    int64_t line;

    if (!is_a(space, code, python->code_type))
        return false;
    mrd_buf_text(to, "  ");
    if (put_text(python, space, number_at(space, code + python->qualname), to)) {
        mrd_buf_text(to, ", ");
        if (put_text(python, space, number_at(space, code + python->filename), to)) {
            line = line_at(python, space, code, number_at(space, frame + python->instruction));
            if (line > 0)
                mrd_buf_fmt(to, ":%lld", (long long) line);
            mrd_buf_text(to, "\n");
            return true;
        }
    }
    to->len = len;
    return false;
}

unsigned
mrd_python_frames(const mrd_python *python, const mrd_space *space, int64_t thread_id, mrd_buf *to)
{
    uint64_t thread = python->runtime == 0 ? 0 : find_thread(python, space, thread_id);
    uint64_t frame = thread == 0 ? 0 : number_at(space, thread + python->frame);
    unsigned shown = 0;

    if (frame != 0 && python->c_frame != UINT64_MAX)
        frame = number_at(space, frame + python->c_frame);
    for (unsigned i = 0; i < FRAMES_MAX && frame != 0; i++) {
        uint64_t code = number_at(space, frame + python->code);
        uint8_t owner;

        if (!mrd_space_read(space, frame + python->owner, &owner, 1))
            break;
        if (owner != OWNED_BY_C) {
            if (shown < SHOWN_MAX && !put_frame(python, space, frame, code, to))
                break;
            shown++;
        }
        frame = number_at(space, frame + python->previous);
    }
    if (shown > SHOWN_MAX)
        mrd_buf_fmt(to, "  ... %u outer frames\n", shown - SHOWN_MAX);
    return shown;
}
