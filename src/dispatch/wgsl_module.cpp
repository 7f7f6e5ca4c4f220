#include "dispatch/wgsl_module.h"

#include <fmt/format.h>

#include <utility>

namespace weft::dispatch {
namespace {

// naga follows the names from declaration to declaration, one call of its own each, and ends the process when the stack
// is full: with chains of some tens of thousands. (Its time grows with the square, too.)
constexpr std::size_t kMostDeclarations = 8192;

class Parser {
 public:
  Parser(WgslModule& module, WgslRange range) : module_(module), tokens_(module.tokens), at_(range.begin) {}

  void parse() {
    while (now().kind != WgslKind::end) {
      if (take_if(';')) continue;
      std::vector<WgslAttribute> attributes = take_attributes();
      const WgslToken& word = now();
      if (word.kind != WgslKind::identifier) tokens_.fail_expected(word, "a declaration");
      if (word.text == "enable" || word.text == "requires" || word.text == "diagnostic") {
        take_directive();
      } else if (word.text == "const_assert") {
        take_until_semicolon();
      } else {
        take_declaration(std::move(attributes));
      }
    }
  }

  /// All of the range must be one type.
  WgslRange whole_type() {
    const WgslRange type = take_type();
    if (now().kind != WgslKind::end) tokens_.fail_expected(now(), "the end of the type");
    return type;
  }

 private:
  const WgslToken& now() const noexcept { return tokens_[at_]; }

  bool take_if(char c) noexcept {
    if (!now().is(c)) return false;
    ++at_;
    return true;
  }

  void expect(char c, std::string_view wanted) {
    if (!take_if(c)) tokens_.fail_expected(now(), wanted);
  }

  std::size_t expect_name(std::string_view wanted) {
    if (now().kind != WgslKind::identifier) tokens_.fail_expected(now(), wanted);
    return at_++;
  }

  // Takes an opening bracket and what is in it, with the closing one; returns what is between.
  WgslRange take_bracketed(char open, char close) {
    const std::size_t begin = at_;
    std::size_t depth = 0;
    do {
      if (now().kind == WgslKind::end) {
        tokens_.fail(tokens_[begin], fmt::format("'{}' is never closed", open), fmt::format("add the '{}'", close));
      }
      if (now().is(open)) ++depth;
      if (now().is(close)) --depth;
      ++at_;
    } while (depth != 0);
    return {begin + 1, at_ - 1};
  }

  std::vector<WgslAttribute> take_attributes() {
    std::vector<WgslAttribute> attributes;
    while (take_if('@')) {
      const std::size_t name = expect_name("the name of an attribute");
      WgslAttribute attribute{tokens_[name].text, name, {}};
      if (now().is('(')) attribute.arguments = take_bracketed('(', ')');
      attributes.push_back(attribute);
    }
    return attributes;
  }

  // With the semicolon; returns what stands before it. Expressions hold none.
  WgslRange take_until_semicolon() {
    const WgslRange range{at_, find_semicolon()};
    at_ = range.end + 1;
    return range;
  }

  std::size_t find_semicolon() const {
    std::size_t i = at_;
    while (!tokens_[i].is(';')) {
      if (tokens_[i].kind == WgslKind::end || tokens_[i].is('{') || tokens_[i].is('}')) {
        tokens_.fail_expected(tokens_[i], "';'");
      }
      ++i;
    }
    return i;
  }

  WgslRange take_type() {
    const std::size_t begin = expect_name("a type");
    if (now().kind == WgslKind::template_open) take_template_list();
    return {begin, at_};
  }

  // The lexer has marked opens and closes in pairs.
  WgslRange take_template_list() noexcept {
    const std::size_t begin = at_;
    std::size_t depth = 0;
    do {
      if (now().kind == WgslKind::template_open) ++depth;
      if (now().kind == WgslKind::template_close) --depth;
      ++at_;
    } while (depth != 0);
    return {begin + 1, at_ - 1};
  }

  void take_directive() {
    const bool enables = now().text == "enable";
    const WgslRange range = take_until_semicolon();
    module_.directives.push_back(range);
    if (!enables) return;
    for (std::size_t i = range.begin + 1; i < range.end; ++i) {
      if (tokens_[i].kind == WgslKind::identifier) module_.enables.push_back(tokens_[i].text);
    }
  }

  void take_declaration(std::vector<WgslAttribute> attributes) {
    const WgslToken& word = now();
    const std::size_t at_word = at_++;
    WgslDeclaration declaration{};
    declaration.attributes = std::move(attributes);
    if (word.text == "const") {
      declaration.kind = WgslDeclarationKind::constant;
      take_value(declaration);
    } else if (word.text == "override") {
      declaration.kind = WgslDeclarationKind::override_;
      take_value(declaration);
    } else if (word.text == "alias") {
      declaration.kind = WgslDeclarationKind::alias;
      take_name(declaration);
      expect('=', "'='");
      declaration.type = take_type();
      expect(';', "';'");
    } else if (word.text == "struct") {
      declaration.kind = WgslDeclarationKind::structure;
      take_structure(declaration);
    } else if (word.text == "var") {
      declaration.kind = WgslDeclarationKind::variable;
      take_variable(declaration);
    } else if (word.text == "fn") {
      declaration.kind = WgslDeclarationKind::function;
      take_function(declaration);
    } else {
      tokens_.fail_expected(tokens_[at_word], "a declaration");
    }
    if (module_.declarations.size() == kMostDeclarations) {
      tokens_.fail(tokens_[at_word], fmt::format("more than {} declarations", kMostDeclarations),
                   "put constants into an array, and leave out what the entry point does not use");
    }
    module_.by_name.emplace(declaration.name, module_.declarations.size());
    module_.declarations.push_back(std::move(declaration));
  }

  void take_name(WgslDeclaration& declaration) {
    declaration.token = expect_name("a name");
    declaration.name = tokens_[declaration.token].text;
  }

  void take_value(WgslDeclaration& declaration) {
    take_name(declaration);
    if (take_if(':')) declaration.type = take_type();
    if (take_if('=')) {
      declaration.value = take_until_semicolon();
    } else {
      expect(';', "'=' or ';'");
    }
  }

  void take_structure(WgslDeclaration& declaration) {
    take_name(declaration);
    expect('{', "'{'");
    while (!take_if('}')) {
      WgslMember member;
      member.attributes = take_attributes();
      member.token = expect_name("a member or '}'");
      member.name = tokens_[member.token].text;
      expect(':', "':'");
      member.type = take_type();
      declaration.members.push_back(std::move(member));
      if (!take_if(',') && !now().is('}')) tokens_.fail_expected(now(), "',' or '}'");
    }
  }

  void take_variable(WgslDeclaration& declaration) {
    if (now().kind == WgslKind::template_open) {
      const std::vector<WgslRange> words = tokens_.split(take_template_list());
      if (!words.empty()) declaration.address_space = tokens_[words[0].begin].text;
      if (words.size() > 1) declaration.access = tokens_[words[1].begin].text;
    }
    take_name(declaration);
    if (take_if(':')) declaration.type = take_type();
    if (take_if('=')) {
      take_until_semicolon();
    } else {
      expect(';', "';'");
    }
  }

  void take_function(WgslDeclaration& declaration) {
    take_name(declaration);
    if (!now().is('(')) tokens_.fail_expected(now(), "'('");
    const WgslRange parameters = take_bracketed('(', ')');
    for (const WgslRange& part : tokens_.split(parameters)) {
      for (std::size_t i = part.begin; i + 1 < part.end; ++i) {
        if (tokens_[i].kind == WgslKind::identifier && tokens_[i + 1].is(':')) {
          declaration.parameters.push_back(tokens_[i].text);
          break;
        }
      }
    }
    if (tokens_.is_pair(at_, "->")) {
      at_ += 2;
      take_attributes();
      take_type();
    }
    take_attributes();
    if (!now().is('{')) tokens_.fail_expected(now(), "'{'");
    declaration.body = take_bracketed('{', '}');
  }

  WgslModule& module_;
  const WgslTokens& tokens_;
  std::size_t at_;
};

void add_prelude_constant(WgslModule& module, const PreludeConstant& constant, const std::string& origin) {
  WgslDeclaration declaration{};
  declaration.name = constant.name;
  const std::string name_origin = fmt::format("{}: name of constant {}", origin, wgsl_quoted(constant.name));
  const WgslRange name = module.tokens.lex(constant.name, name_origin);
  if (name.end - name.begin != 1 || module.tokens[name.begin].kind != WgslKind::identifier) {
    module.tokens.fail(module.tokens[name.begin], "a constant's name is one identifier", "give a name such as TILE");
  }
  if (module.by_name.contains(constant.name)) {
    module.tokens.fail(module.tokens[name.begin], "the constant is given twice", "give each constant once");
  }
  const std::string value_origin = fmt::format("{}: value of constant {}", origin, wgsl_quoted(constant.name));
  const WgslRange value = module.tokens.lex(constant.value, value_origin);
  declaration.token = value.begin;
  if (value.begin == value.end) {
    module.tokens.fail(module.tokens[value.begin], "the value is empty", "give an expression, or a type for an alias");
  }
  for (std::size_t i = value.begin; i < value.end; ++i) {
    const WgslToken& token = module.tokens[i];
    if (token.is(';') || token.is('{') || token.is('}')) {
      module.tokens.fail(token, fmt::format("{} in a value", wgsl_quoted(token.text)), "give one expression");
    }
  }
  if (constant.type == "alias") {
    declaration.kind = WgslDeclarationKind::alias;
    declaration.type = Parser(module, value).whole_type();
  } else {
    declaration.kind = WgslDeclarationKind::constant;
    declaration.value = value;
    declaration.type =
        module.tokens.lex(constant.type, fmt::format("{}: type of constant {}", origin, wgsl_quoted(constant.name)));
  }
  module.by_name.emplace(declaration.name, module.declarations.size());
  module.declarations.push_back(std::move(declaration));
}

}  // namespace

const WgslAttribute* find_attribute(const std::vector<WgslAttribute>& attributes, std::string_view name) noexcept {
  for (const WgslAttribute& attribute : attributes) {
    if (attribute.name == name) return &attribute;
  }
  return nullptr;
}

const WgslDeclaration* WgslModule::find(std::string_view name) const noexcept {
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : &declarations[found->second];
}

WgslModule parse_wgsl(std::string_view source, const std::vector<PreludeConstant>& constants,
                      const std::string& origin) {
  WgslModule module;
  for (const PreludeConstant& constant : constants) add_prelude_constant(module, constant, origin);
  module.source = module.tokens.lex(source, origin);
  Parser(module, module.source).parse();
  return module;
}

}  // namespace weft::dispatch
