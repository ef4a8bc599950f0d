// NVRTC by g++: a program becomes a shared library whose bytes stand for the cubin; each name expression gets an
// entry that unpacks the parameters of a launch. CXX is the compiler, CUSIM_CXXFLAGS more options for it, and
// CUSIM_CACHE the folder in which compiled programs are kept. With CUSIM_RACES=1 every access to memory is watched, and a
// race between blocks is an error; the compiler's instrumentation for threads serves, without its library.
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <string>
#include <vector>

static const std::string kPrelude =
#include "prelude.inc"
    ;
struct Program {
  std::string text, name, image, log;
  std::map<std::string, std::string> headers;
  std::vector<std::string> expressions;
  bool compiled = false;
};
#define API(type, name, ...) extern "C" __attribute__((visibility("default"))) type name(__VA_ARGS__)

static std::string read(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}
static void write(const std::filesystem::path &path, const std::string &text) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}
static std::string environment(const char *name, const std::string &otherwise) {
  const char *value = getenv(name);
  return value && *value ? value : otherwise;
}
static std::string in_quotes(const std::string &text) { return "'" + std::regex_replace(text, std::regex("'"), "'\\''") + "'"; }
static std::string lowered(size_t expression) { return "ct_symbol_" + std::to_string(expression); }
static std::string entry(const std::string &symbol, std::string expression) {
  expression.erase(0, expression.find_first_not_of("& "));
  return "extern \"C\" __attribute__((visibility(\"default\"))) cusim::Symbol " + symbol + " = cusim::Entry<&" + expression +
         ">::symbol(\"" + expression + "\");\n";
}

// Adds the options that mean something to g++; false for what is no option.
static bool translate(const std::vector<std::string> &options, std::string &flags) {
  static const std::regex known("(--define-macro|-D|--include-path|-I|--gpu-architecture|-arch|--std|-std)=?(.*)");
  for (size_t i = 0; i < options.size(); i++) {
    std::smatch match;
    if (options[i][0] != '-') return false;
    if (!std::regex_match(options[i], match, known)) continue;
    std::string name = match[1], value = match[2];
    if (value.empty() && i + 1 < options.size()) value = options[++i];
    if (name == "-D" || name == "--define-macro") flags += " -D" + in_quotes(value);
    else if (name == "-I" || name == "--include-path") flags += " -I" + in_quotes(value);
    else if (name == "-std" || name == "--std") flags += " -std=" + in_quotes(value);
    else flags += " -D__CUDA_ARCH__=" + std::to_string(10 * atoi(value.c_str() + value.find('_') + 1));
  }
  return true;
}

API(int, nvrtcCompileProgram, Program *p, int count, const char *const *options) {
  std::string text = "#line 1 \"" + p->name + "\"\n" + p->text + "\n", compiler = environment("CXX", "g++");
  std::string flags = " -x c++ -w -O1 -std=c++17 -shared -fPIC -fno-math-errno -fno-gnu-unique -fno-semantic-interposition";
  flags += " -fsanitize=alignment,bounds -fsanitize-undefined-trap-on-error";  // SIGILL, as kFaults knows
  if (!translate({options, options + count}, flags)) return p->log = "nvrtc: error: invalid option", 5;
  bool watched = environment("CUSIM_RACES", "0") == "1";
  if (watched) flags += " -fsanitize=thread";
  flags += " " + environment("CUSIM_CXXFLAGS", "");
  for (size_t i = 0; i < p->expressions.size(); i++) text += entry(lowered(i), p->expressions[i]);
  static const std::regex plain("extern\\s+\"C\"\\s+__global__\\s+void\\s+(?:__launch_bounds__\\s*\\([^)]*\\)\\s*)?(\\w+)\\s*\\(");
  for (std::sregex_iterator it(p->text.begin(), p->text.end(), plain), end; it != end; ++it)  // need no expression
    text += entry("ct_symbol_" + it->str(1), it->str(1));

  std::string key = compiler + flags + kPrelude + text;
  for (auto &[name, header] : p->headers) key += name + header;
  std::string cache = environment("CUSIM_CACHE", "/tmp/cusim-cache-" + std::to_string(getuid()));
  std::string kept = cache + "/" + std::to_string(std::hash<std::string>()(key)) + "-" + std::to_string(key.size()) + ".so";
  p->compiled = true, p->log.clear();
  if (!(p->image = read(kept)).empty()) return 0;

  std::filesystem::create_directories(cache);
  std::string folder = cache + "/build-XXXXXX";
  if (!mkdtemp(&folder[0])) return p->log = "nvrtc: cannot write to " + cache, 6;
  for (auto &[name, header] : p->headers) write(folder + "/" + name, header);
  write(folder + "/prelude.hpp", kPrelude);
  write(folder + "/program.cu", text);
  std::string command = "cd " + in_quotes(folder) + " && " + compiler + flags + " -I. -include prelude.hpp program.cu -";
  command += watched ? "c -o out.o >log 2>&1 && " + compiler + " -shared out.o -o out.so -lm >>log 2>&1" : "o out.so -lm >log 2>&1";
  int status = system(command.c_str());
  p->log = read(folder + "/log"), p->image = read(folder + "/out.so");
  if (status == 0) std::filesystem::rename(folder + "/out.so", kept);
  std::filesystem::remove_all(folder);
  return status ? 6 : 0;
}

API(int, nvrtcVersion, int *major, int *minor) { return *major = 13, *minor = 0, 0; }
static const int kArchs[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};
API(int, nvrtcGetNumSupportedArchs, int *count) { return *count = std::size(kArchs), 0; }
API(int, nvrtcGetSupportedArchs, int *archs) { return memcpy(archs, kArchs, sizeof kArchs), 0; }
API(int, nvrtcCreateProgram, Program **program, const char *text, const char *name, int headers, const char *const *texts,
    const char *const *names) {
  if (!text) return 3;
  *program = new Program{text, name ? name : "default_program", {}, {}, {}, {}};
  for (int i = 0; i < headers; i++) (*program)->headers[names[i]] = texts[i];
  return 0;
}
API(int, nvrtcDestroyProgram, Program **program) { return delete *program, *program = nullptr, 0; }
API(int, nvrtcAddNameExpression, Program *p, const char *expression) {
  return p->compiled ? 8 : (p->expressions.push_back(expression), 0);
}
API(int, nvrtcGetLoweredName, Program *p, const char *expression, const char **name) {
  static thread_local std::string result;
  for (size_t i = 0; p->compiled && i < p->expressions.size(); i++)
    if (p->expressions[i] == expression) return result = lowered(i), *name = result.c_str(), 0;
  return p->compiled ? 10 : 9;
}
API(int, nvrtcGetCUBINSize, Program *p, size_t *bytes) { return *bytes = p->image.size(), 0; }
API(int, nvrtcGetCUBIN, Program *p, char *out) { return memcpy(out, p->image.data(), p->image.size()), 0; }
API(int, nvrtcGetPTXSize, Program *p, size_t *bytes) { return *bytes = p->image.size(), 0; }
API(int, nvrtcGetPTX, Program *p, char *out) { return memcpy(out, p->image.data(), p->image.size()), 0; }
API(int, nvrtcGetProgramLogSize, Program *p, size_t *bytes) { return *bytes = p->log.size() + 1, 0; }
API(int, nvrtcGetProgramLog, Program *p, char *out) { return memcpy(out, p->log.c_str(), p->log.size() + 1), 0; }
API(const char *, nvrtcGetErrorString, int code) {
  static const std::map<int, const char *> names = {
      {0, "NVRTC_SUCCESS"}, {3, "NVRTC_ERROR_INVALID_INPUT"}, {5, "NVRTC_ERROR_INVALID_OPTION"}, {6, "NVRTC_ERROR_COMPILATION"},
      {8, "NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION"}, {9, "NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION"},
      {10, "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID"}};
  return names.count(code) ? names.at(code) : "NVRTC_ERROR_INTERNAL_ERROR";
}
