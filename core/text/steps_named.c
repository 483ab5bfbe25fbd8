/* Pre-tokenizers by name. The expressions are the published tokenizers' own; llama.cpp named them. */
#include <string.h>

#include "core/files/json.h"
#include "core/text/steps.h"

#define GPT2_WORDS "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)"
#define ANY_CASE "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
#define SPACES "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" SPACES
#define UPPER "\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}"
#define LOWER "\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"
#define WIDE "[\\x{4E00}-\\x{9FA5}\\x{800}-\\x{4E00}\\x{AC00}-\\x{D7FF}]+"

const char pretokenize_gpt2[] = GPT2_WORDS "|\\s+";

static const char llama3[] = ANY_CASE "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}" REST;
static const char qwen2[] = ANY_CASE "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" REST;
/* Mistral's later tokenizers, in which a word also ends where the case changes. */
#define CASED_WORDS(end)                                                                                     \
	"[^\\r\\n\\p{L}\\p{N}]?[" UPPER "]*[" LOWER "]+" end "|[^\\r\\n\\p{L}\\p{N}]?[" UPPER "]+[" LOWER "]"    \
	"*" end
#define CASED_REST "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*" SPACES
static const char tekken[] = CASED_WORDS("") "|\\p{N}" CASED_REST;
/* GPT-4o's, which keeps contractions with their word and cuts digits in groups of three. */
static const char gpt4o[] = CASED_WORDS(ANY_CASE "?") "|\\p{N}{1,3}" CASED_REST;
/* Marks belong to words. */
static const char qwen35[] =
    ANY_CASE "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" SPACES;
static const char seed_coder[] =
    ANY_CASE "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+" SPACES;
static const char minicpm5[] = ANY_CASE "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}+" REST;
/* White space is cut at the ends of lines. */
#define LINES "|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
static const char bailing[] =
    ANY_CASE "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*" LINES;
static const char exaone_moe[] =
    ANY_CASE "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*+(?: \\p{L}\\p{M}*+)*+)++|\\p{N}| "
             "?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?" LINES;
/* The ranges of letters that DeepSeek-LLM lists: those that have a case. */
static const char deepseek_letters[] =
    "\\s?["
    "\\x{41}-\\x{5A}\\x{61}-\\x{7A}\\x{B5}\\x{C0}-\\x{D6}\\x{D8}-\\x{F6}\\x{F8}-\\x{1BA}"
    "\\x{1BC}-\\x{1BF}\\x{1C4}-\\x{293}\\x{295}-\\x{2AF}\\x{370}-\\x{373}\\x{376}\\x{377}"
    "\\x{37B}-\\x{37D}\\x{37F}\\x{386}\\x{388}-\\x{38A}\\x{38C}\\x{38E}-\\x{3A1}"
    "\\x{3A3}-\\x{3F5}\\x{3F7}-\\x{481}\\x{48A}-\\x{52F}\\x{531}-\\x{556}"
    "\\x{10A0}-\\x{10C5}\\x{13A0}-\\x{13F5}\\x{13F8}-\\x{13FD}\\x{1C90}-\\x{1CBA}"
    "\\x{1CBD}-\\x{1CBF}\\x{1D00}-\\x{1D2B}\\x{1D6B}-\\x{1D77}\\x{1D79}-\\x{1D9A}"
    "\\x{1E00}-\\x{1F15}\\x{1F18}-\\x{1F1D}\\x{1F20}-\\x{1F45}\\x{1F48}-\\x{1F4D}"
    "\\x{1F50}-\\x{1F57}\\x{1F59}\\x{1F5B}\\x{1F5D}\\x{1F5F}-\\x{1F7D}\\x{1F80}-\\x{1FB4}"
    "\\x{1FB6}-\\x{1FBC}\\x{1FBE}\\x{1FC2}-\\x{1FC4}\\x{1FC6}-\\x{1FCC}"
    "\\x{1FD0}-\\x{1FD3}\\x{1FD6}-\\x{1FDB}\\x{1FE0}-\\x{1FEC}\\x{1FF2}-\\x{1FF4}"
    "\\x{1FF6}-\\x{1FFC}\\x{2102}\\x{2107}\\x{210A}-\\x{2113}\\x{2115}\\x{2119}-\\x{211D}"
    "\\x{2124}\\x{2126}\\x{2128}\\x{212A}-\\x{212D}\\x{212F}-\\x{2134}\\x{2139}"
    "\\x{213C}-\\x{213F}\\x{2145}-\\x{2149}\\x{214E}\\x{2183}\\x{2184}\\x{2C00}-\\x{2C7B}"
    "\\x{2C7E}-\\x{2CE4}\\x{2CEB}-\\x{2CEE}\\x{2CF2}\\x{2CF3}\\x{A640}-\\x{A66D}"
    "\\x{A680}-\\x{A69B}\\x{A722}-\\x{A76F}\\x{A771}-\\x{A787}\\x{A78B}-\\x{A78E}"
    "\\x{AB70}-\\x{ABBF}\\x{FB00}-\\x{FB06}\\x{FB13}-\\x{FB17}\\x{FF21}-\\x{FF3A}"
    "\\x{FF41}-\\x{FF5A}\\x{10400}-\\x{1044F}\\x{104B0}-\\x{104D3}\\x{104D8}-\\x{104FB}"
    "\\x{10C80}-\\x{10CB2}\\x{10CC0}-\\x{10CF2}\\x{118A0}-\\x{118DF}\\x{1E900}-\\x{1E943}"
    "]+";
static const char deepseek_marks[] =
    "\\s?[!-/:-~\\x{FF01}-\\x{FF0F}\\x{FF1A}-\\x{FF5E}\\x{2018}-\\x{201F}\\x{3000}-\\x{3002}]+";
static const char deepseek3_words[] =
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
    "?[\\p{P}\\p{S}]+[\\r\\n]*" SPACES;

/* Stands for rewriting in the byte alphabet before the last step. Falcon looks for digits in the rewritten
 * text. */
static const char letters[] = "";

enum { MAX_EXPRESSIONS = 6 };
enum { IGNORES_MERGES = 1, ADDS_BOS = 2 };

static const struct named {
	const char* names; /* with spaces between */
	unsigned habits;
	const char* expression[MAX_EXPRESSIONS];
} known[] = {
    {"default", 0, {"[\\p{P}\\$\\+<=>\\^~\\|]+", GPT2_WORDS, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {"gpt-2 phi-2 mpt olmo exaone4 mellum gigachat a.x-4.0 jais trillion granite-docling",
     0,
     {pretokenize_gpt2}},
    {"llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2",
     IGNORES_MERGES | ADDS_BOS,
     {llama3}},
    {"dbrx glm4 chatglm-bpe smaug-bpe", 0, {llama3}},
    {"qwen2 deepseek-r1-qwen stablelm2 megrez hunyuan grok-2 kormo solar-open", 0, {qwen2}},
    {"qwen35", 0, {qwen35}},
    {"seed-coder", 0, {seed_coder}},
    {"minicpm5", IGNORES_MERGES, {"\\p{N}{1,3}", minicpm5}},
    {"bailingmoe bailingmoe2", 0, {bailing}},
    {"exaone-moe", 0, {exaone_moe}},
    {"gpt-4o llama4 kanana2 minimax-m2", 0, {gpt4o}},
    {"tekken", IGNORES_MERGES | ADDS_BOS, {tekken}},
    {"deepseek-coder", 0, {"[\\r\\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", WIDE, "\\p{N}"}},
    {"deepseek-llm", 0, {"[\\r\\n]", deepseek_letters, deepseek_marks, "\\s+$", WIDE, "\\p{N}"}},
    {"deepseek-v3 hunyuan-dense",
     0,
     {"\\p{N}{1,3}", "[\\x{4E00}-\\x{9FA5}\\x{3040}-\\x{309F}\\x{30A0}-\\x{30FF}]+", deepseek3_words}},
    {"falcon", 0, {"[\\p{P}\\$\\+<=>\\^~\\|`]+", pretokenize_gpt2, letters, "\\p{N}+", "[0-9][0-9][0-9]"}},
    {"starcoder refact command-r smollm codeshell exaone minerva-7b mellum2",
     0,
     {"\\p{N}", pretokenize_gpt2}},
};

static bool refuse_unknown(const char* name, struct error* error) {
	char list[420] = "";
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
		strncat(list, i ? " " : "", sizeof list - strlen(list) - 1);
		strncat(list, known[i].names, sizeof list - strlen(list) - 1);
	}
	return error_set(error, "tokenizer.ggml.pre: \"%.40s\" is not supported, expected one of %s", name, list);
}

static bool add_step(struct steps* s, const struct named* named, struct error* error) {
	bool rewritten = false;
	for (int i = 0; i < MAX_EXPRESSIONS && named->expression[i]; i++) {
		const char* text = named->expression[i];
		if (text == letters ? !steps_add(s, STEP_BYTE_LEVEL, error)
		                    : !steps_add_split(s, text, true, SPLIT_ISOLATED, error))
			return false;
		rewritten |= text == letters;
	}
	return rewritten || steps_add(s, STEP_BYTE_LEVEL, error) != NULL;
}

bool steps_add_named(struct steps* s, const char* name, bool* ignore_merges, bool* adds_bos,
                     struct error* error) {
	name = name && *name ? name : "default";
	for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
		if (json_lists(known[i].names, name)) {
			*ignore_merges = known[i].habits & IGNORES_MERGES;
			*adds_bos = known[i].habits & ADDS_BOS;
			return add_step(s, &known[i], error);
		}
	}
	return refuse_unknown(name, error);
}
