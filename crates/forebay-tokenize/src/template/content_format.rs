//! Whether a template takes a message's content as one string or as a list of
//! parts.
//!
//! vLLM looks for a loop over the content of a message, or over the parameter
//! of a macro that is given one, and hands such a template lists. This reads
//! the template's tree by the same rules, so that the template gets what it
//! would get there.

use minijinja::machinery::ast::{CallArg, Expr, Stmt};
use minijinja::machinery::parse;

use super::environment::syntax;

/// How the content of a message is given to a template.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ContentFormat {
    /// One string; the texts of several parts are joined by newlines.
    String,
    /// A list of parts.
    Parts,
}

impl ContentFormat {
    /// What the engine finds in the template; a string when in doubt.
    pub(super) fn of(source: &str) -> ContentFormat {
        let tree = syntax().and_then(|syntax| parse(source, "template", syntax));
        let Ok(tree) = tree else { return ContentFormat::String };
        let mut found = Found::default();
        found.statement(&tree);
        if found.loops_over_content() { ContentFormat::Parts } else { ContentFormat::String }
    }
}

struct Loop<'a, 's> {
    target: &'s str,
    over: &'a Expr<'s>,
    /// The macros that it stands in, by their place in the list.
    macros: Vec<usize>,
}

struct Macro<'s> {
    name: &'s str,
    parameters: Vec<Option<&'s str>>,
}

/// What matters of a template's tree, in order of appearance.
#[derive(Default)]
struct Found<'a, 's> {
    assigned: Vec<(&'s str, &'a Expr<'s>)>,
    loops: Vec<Loop<'a, 's>>,
    macros: Vec<Macro<'s>>,
    calls: Vec<(&'s str, &'a [CallArg<'s>])>,
    inside: Vec<usize>,
}

fn name<'s>(expr: &Expr<'s>) -> Option<&'s str> {
    match expr {
        Expr::Var(var) => Some(var.id),
        _ => None,
    }
}

/// Whether `expr` is `variable`, or its field `key`; slices, filters and tests
/// of it count too.
fn is_elements(expr: &Expr<'_>, variable: &str, key: Option<&str>) -> bool {
    match expr {
        Expr::Filter(filter) => filter.expr.as_ref().is_some_and(|inner| is_elements(inner, variable, key)),
        Expr::Test(test) => is_elements(&test.expr, variable, key),
        Expr::Slice(slice) => is_elements(&slice.expr, variable, key),
        Expr::GetAttr(field) => key == Some(field.name) && name(&field.expr) == Some(variable),
        Expr::GetItem(field) => match (&field.subscript_expr, key) {
            (Expr::Const(index), Some(key)) => {
                index.value.as_str() == Some(key) && name(&field.expr) == Some(variable)
            }
            _ => false,
        },
        _ => key.is_none() && name(expr) == Some(variable),
    }
}

impl<'a, 's> Found<'a, 's> {
    fn loops_over_content(&self) -> bool {
        // Every name that stands for the messages.
        let mut messages = vec!["messages"];
        let mut at = 0;
        while let Some(&known) = messages.get(at) {
            for (target, value) in &self.assigned {
                if is_elements(value, known, None) && !messages.contains(target) {
                    messages.push(target);
                }
            }
            at += 1;
        }
        let message: Vec<&str> = self
            .loops
            .iter()
            .filter(|each| messages.iter().any(|of| is_elements(each.over, of, None)))
            .map(|each| each.target)
            .collect();
        let is_content = |expr: &Expr<'_>| message.iter().any(|of| is_elements(expr, of, Some("content")));
        // Of each macro, the parameters that are given a content.
        let given: Vec<Vec<&str>> = self.macros.iter().map(|of| self.given(of, &is_content)).collect();
        self.loops.iter().any(|each| {
            let over = name(each.over);
            is_content(each.over)
                || each.macros.iter().any(|&at| over.is_some_and(|over| given[at].contains(&over)))
                || (each.macros.is_empty() && over == Some("content"))
        })
    }

    fn given(&self, of: &Macro<'s>, is_content: &dyn Fn(&Expr<'_>) -> bool) -> Vec<&'s str> {
        let mut given = Vec::new();
        for (_, args) in self.calls.iter().filter(|(called, _)| *called == of.name) {
            for (at, arg) in args.iter().enumerate() {
                let parameter = match arg {
                    CallArg::Pos(value) if is_content(value) => of.parameters.get(at).copied().flatten(),
                    CallArg::Kwarg(key, value) if is_content(value) => {
                        of.parameters.iter().flatten().copied().find(|parameter| parameter == key)
                    }
                    _ => None,
                };
                given.extend(parameter);
            }
        }
        given
    }

    fn statements(&mut self, body: &'a [Stmt<'s>]) {
        body.iter().for_each(|statement| self.statement(statement));
    }

    fn statement(&mut self, statement: &'a Stmt<'s>) {
        match statement {
            Stmt::Template(template) => self.statements(&template.children),
            Stmt::EmitExpr(emit) => self.expr(&emit.expr),
            Stmt::ForLoop(each) => {
                if let Some(target) = name(&each.target) {
                    self.loops.push(Loop { target, over: &each.iter, macros: self.inside.clone() });
                }
                self.expr(&each.iter);
                each.filter_expr.iter().for_each(|expr| self.expr(expr));
                self.statements(&each.body);
                self.statements(&each.else_body);
            }
            Stmt::IfCond(cond) => {
                self.expr(&cond.expr);
                self.statements(&cond.true_body);
                self.statements(&cond.false_body);
            }
            Stmt::WithBlock(with) => {
                with.assignments.iter().for_each(|(_, value)| self.expr(value));
                self.statements(&with.body);
            }
            Stmt::Set(set) => {
                if let Some(target) = name(&set.target) {
                    self.assigned.push((target, &set.expr));
                }
                self.expr(&set.expr);
            }
            Stmt::SetBlock(set) => self.statements(&set.body),
            Stmt::AutoEscape(block) => self.statements(&block.body),
            Stmt::FilterBlock(block) => {
                self.expr(&block.filter);
                self.statements(&block.body);
            }
            Stmt::Macro(of) => self.macro_body(of.name, &of.args, &of.body),
            Stmt::CallBlock(block) => {
                self.call(&block.call.expr, &block.call.args);
                self.statements(&block.macro_decl.body);
            }
            Stmt::Do(of) => self.call(&of.call.expr, &of.call.args),
            _ => {}
        }
    }

    fn macro_body(&mut self, name_of: &'s str, parameters: &'a [Expr<'s>], body: &'a [Stmt<'s>]) {
        self.inside.push(self.macros.len());
        self.macros.push(Macro { name: name_of, parameters: parameters.iter().map(name).collect() });
        self.statements(body);
        self.inside.pop();
    }

    fn call(&mut self, called: &'a Expr<'s>, args: &'a [CallArg<'s>]) {
        match name(called) {
            Some(name) => self.calls.push((name, args)),
            None => self.expr(called),
        }
        self.args(args);
    }

    fn args(&mut self, args: &'a [CallArg<'s>]) {
        for arg in args {
            match arg {
                CallArg::Pos(value)
                | CallArg::Kwarg(_, value)
                | CallArg::PosSplat(value)
                | CallArg::KwargSplat(value) => self.expr(value),
            }
        }
    }

    /// Looks for calls inside an expression.
    fn expr(&mut self, expr: &'a Expr<'s>) {
        match expr {
            Expr::Var(_) | Expr::Const(_) => {}
            Expr::Slice(slice) => self.expr(&slice.expr),
            Expr::UnaryOp(of) => self.expr(&of.expr),
            Expr::BinOp(of) => {
                self.expr(&of.left);
                self.expr(&of.right);
            }
            Expr::Compare(of) => {
                self.expr(&of.expr);
                of.ops.iter().for_each(|op| self.expr(&op.expr));
            }
            Expr::IfExpr(of) => {
                self.expr(&of.test_expr);
                self.expr(&of.true_expr);
                of.false_expr.iter().for_each(|expr| self.expr(expr));
            }
            Expr::Filter(of) => {
                of.expr.iter().for_each(|expr| self.expr(expr));
                self.args(&of.args);
            }
            Expr::Test(of) => {
                self.expr(&of.expr);
                self.args(&of.args);
            }
            Expr::GetAttr(of) => self.expr(&of.expr),
            Expr::GetItem(of) => {
                self.expr(&of.expr);
                self.expr(&of.subscript_expr);
            }
            Expr::Call(of) => self.call(&of.expr, &of.args),
            Expr::List(of) => of.items.iter().for_each(|item| self.expr(item)),
            Expr::Tuple(of) => of.items.iter().for_each(|item| self.expr(item)),
            Expr::Map(of) => of.keys.iter().chain(&of.values).for_each(|item| self.expr(item)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::ContentFormat::{Parts, String};
    use super::*;

    #[test]
    fn loops_over_contents_are_found() {
        let cases = [
            ("{% for m in messages %}{{ m.content }}{% endfor %}", String),
            ("{% for m in messages %}{% for c in m.content %}{{ c }}{% endfor %}{% endfor %}", Parts),
            (
                "{% for m in messages %}{% for c in m['content'] | list %}{{ c }}{% endfor %}{% endfor %}",
                Parts,
            ),
            ("{% for m in messages %}{% for c in m.tool_calls %}{{ c }}{% endfor %}{% endfor %}", String),
            (
                "{% set rest = messages[1:] %}{% for m in rest %}{% for c in m.content %}{% endfor %}{% endfor %}",
                Parts,
            ),
            (
                "{% macro show(x) %}{% for c in x %}{% endfor %}{% endmacro %}{% for m in messages %}{{ show(m.content) }}{% endfor %}",
                Parts,
            ),
            (
                "{% macro show(content) %}{% for c in content %}{% endfor %}{% endmacro %}{% for m in messages %}{{ show(m.role) }}{% endfor %}",
                String,
            ),
            (
                "{% macro show(a, x) %}{% for c in x %}{% endfor %}{% endmacro %}{% for m in messages %}{{ 'a' + show(1, x=m.content) | trim }}{% endfor %}",
                Parts,
            ),
            ("{% for c in content %}{% endfor %}", Parts),
            ("{% for", String),
        ];
        for (template, format) in cases {
            assert_eq!(ContentFormat::of(template), format, "{template}");
        }
    }
}
