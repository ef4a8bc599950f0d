//! A recursive-descent parser over the text.

use super::{Alias, Argument, BaseType, ParseError, Return, Schema, Type, Value};

type Parsed<T> = Result<T, ParseError>;

/// Parses a whole schema.
pub(super) fn schema(text: &str) -> Parsed<Schema> {
    let mut cursor = Cursor { text, at: 0 };
    let schema = cursor.schema()?;
    match cursor.rest().trim() {
        "" => Ok(schema),
        _ => cursor.fail("expected the end of the schema"),
    }
}

struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn fail<T>(&self, message: impl Into<String>) -> Parsed<T> {
        Err(ParseError { message: message.into(), offset: self.at })
    }

    fn skip_space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    /// Whether the next token starts with `token`, which is then consumed.
    fn eat(&mut self, token: &str) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn peek(&mut self, token: &str) -> bool {
        self.skip_space();
        self.rest().starts_with(token)
    }

    fn expect(&mut self, token: &str) -> Parsed<()> {
        match self.eat(token) {
            true => Ok(()),
            false => self.fail(format!("expected `{token}`")),
        }
    }

    fn take_while(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        self.skip_space();
        let rest = self.rest();
        let end = rest.find(|c| !accept(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn word(&mut self) -> Parsed<&'a str> {
        match self.take_while(|c| c.is_ascii_alphanumeric() || c == '_') {
            "" => self.fail("expected a name"),
            word => Ok(word),
        }
    }

    fn schema(&mut self) -> Parsed<Schema> {
        let mut namespace = String::new();
        let mut name = self.word()?.to_owned();
        while self.eat("::") {
            namespace = match namespace.as_str() {
                "" => name,
                outer => format!("{outer}::{name}"),
            };
            name = self.word()?.to_owned();
        }
        let overload = match self.eat(".") {
            true => self.word()?.to_owned(),
            false => String::new(),
        };
        let (arguments, vararg) = self.arguments()?;
        self.expect("->")?;
        let (returns, varret) = self.returns()?;
        Ok(Schema { namespace, name, overload, arguments, returns, vararg, varret })
    }

    fn arguments(&mut self) -> Parsed<(Vec<Argument>, bool)> {
        let (mut arguments, mut vararg, mut kwarg_only) = (Vec::new(), false, false);
        self.expect("(")?;
        if self.eat(")") {
            return Ok((arguments, vararg));
        }
        loop {
            if self.eat("...") {
                vararg = true;
            } else if self.eat("*") {
                kwarg_only = true;
            } else {
                arguments.push(self.argument(kwarg_only)?);
            }
            if self.eat(")") {
                return Ok((arguments, vararg));
            }
            self.expect(",")?;
        }
    }

    fn argument(&mut self, kwarg_only: bool) -> Parsed<Argument> {
        let mut ty = self.ty()?;
        let name = self.word()?.to_owned();
        // The oldest spelling puts the size of a list after the name: `int dims[2]`.
        if self.peek("[") {
            ty = self.suffixes(ty)?;
        }
        let default = match self.eat("=") {
            true => Some(self.value()?),
            false => None,
        };
        Ok(Argument { name, ty, default, kwarg_only })
    }

    fn returns(&mut self) -> Parsed<(Vec<Return>, bool)> {
        let mut returns = Vec::new();
        if self.eat("...") {
            return Ok((returns, true));
        }
        if !self.peek("(") {
            return Ok((vec![self.result()?], false));
        }
        self.expect("(")?;
        while !self.eat(")") {
            if !returns.is_empty() {
                self.expect(",")?;
            }
            if self.eat("...") {
                self.expect(")")?;
                return Ok((returns, true));
            }
            returns.push(self.result()?);
        }
        Ok((returns, false))
    }

    fn result(&mut self) -> Parsed<Return> {
        let ty = self.ty()?;
        self.skip_space();
        let named = self.rest().starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let name = if named { Some(self.word()?.to_owned()) } else { None };
        Ok(Return { name, ty })
    }

    fn ty(&mut self) -> Parsed<Type> {
        let base = if self.eat("(") { Type::Tuple(self.types()?) } else { self.named_type()? };
        self.suffixes(base)
    }

    /// The rest of a comma-separated list of types, with its closing parenthesis.
    fn types(&mut self) -> Parsed<Vec<Type>> {
        let mut types = vec![self.ty()?];
        while !self.eat(")") {
            self.expect(",")?;
            types.push(self.ty()?);
        }
        Ok(types)
    }

    fn named_type(&mut self) -> Parsed<Type> {
        let mut name = self.word()?.to_owned();
        while self.rest().starts_with('.') {
            self.at += 1;
            name = format!("{name}.{}", self.word()?);
        }
        let generic = ["Dict", "Future", "RRef", "Await"].contains(&name.as_str());
        if generic && self.eat("(") {
            return Ok(Type::Generic(name, self.types()?));
        }
        Ok(Type::Base(BaseType::named(&name)))
    }

    fn suffixes(&mut self, mut ty: Type) -> Parsed<Type> {
        loop {
            if self.eat("?") {
                ty = Type::Optional(Box::new(ty));
            } else if self.eat("[") {
                let size = self.take_while(|c| c.is_ascii_digit());
                let size = match size {
                    "" => None,
                    digits => Some(digits.parse().or_else(|_| self.fail("list size too large"))?),
                };
                self.expect("]")?;
                ty = Type::List(Box::new(ty), size);
            } else if self.rest().starts_with('(') {
                ty = Type::Aliased(Box::new(ty), self.alias()?);
            } else {
                return Ok(ty);
            }
        }
    }

    fn alias(&mut self) -> Parsed<Alias> {
        self.expect("(")?;
        let before = self.alias_sets()?;
        let mut write = self.eat("!");
        let after = match self.eat("->") {
            true => Some(self.alias_sets()?),
            false => None,
        };
        write |= after.is_some() && self.eat("!");
        self.expect(")")?;
        Ok(Alias { before, write, after })
    }

    fn alias_sets(&mut self) -> Parsed<Vec<String>> {
        let mut sets = Vec::new();
        loop {
            let set = if self.eat("*") { "*" } else { self.word()? };
            sets.push(set.to_owned());
            if !self.eat("|") {
                return Ok(sets);
            }
        }
    }

    fn value(&mut self) -> Parsed<Value> {
        self.skip_space();
        match self.rest().chars().next() {
            Some('[') => self.list_value(),
            Some(quote @ ('"' | '\'')) => self.string_value(quote),
            Some(c) if c.is_ascii_digit() || c == '-' || c == '.' => self.number_value(),
            _ => Ok(match self.word()? {
                "None" => Value::None,
                "True" => Value::Bool(true),
                "False" => Value::Bool(false),
                name @ ("inf" | "nan") => Value::Float(name.to_owned()),
                name => Value::Name(name.to_owned()),
            }),
        }
    }

    fn list_value(&mut self) -> Parsed<Value> {
        let mut values = Vec::new();
        self.expect("[")?;
        while !self.eat("]") {
            if !values.is_empty() {
                self.expect(",")?;
            }
            values.push(self.value()?);
        }
        Ok(Value::List(values))
    }

    fn string_value(&mut self, quote: char) -> Parsed<Value> {
        let rest = self.rest();
        let mut escaped = false;
        for (i, c) in rest.char_indices().skip(1) {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                c if c == quote => {
                    self.at += i + 1;
                    return Ok(Value::Str(rest[..=i].to_owned()));
                }
                _ => {}
            }
        }
        self.fail("string without an end")
    }

    fn number_value(&mut self) -> Parsed<Value> {
        let start = self.at;
        self.eat("-");
        let digits = self.take_while(|c| c.is_ascii_alphanumeric() || c == '.');
        if digits.ends_with(['e', 'E']) && (self.eat("-") || self.eat("+")) {
            self.take_while(|c| c.is_ascii_digit());
        }
        let text = &self.text[start..self.at];
        match text.parse::<i64>() {
            Ok(number) => Ok(Value::Int(number)),
            Err(_) if text.parse::<f64>().is_ok() || text == "-inf" => {
                Ok(Value::Float(text.to_owned()))
            }
            Err(_) => self.fail(format!("`{text}` is not a number")),
        }
    }
}
