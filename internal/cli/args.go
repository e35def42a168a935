// Package cli is what the commands of this project share: arguments brought into one form,
// results as text or JSON, errors that say what, where and how to go on, help texts and shell
// completion. The commands themselves are urfave/cli applications; that library parses
// options as Go does, so Canonical first rewrites what Kafka's tools accept:
//
//	--conf F  --config=F  -c F  -cF  -c=F      a value, in each of its forms, from a unique prefix
//	-sg  -sgr 4.0  -sgr4.0                     short options in one word, the last may take a value
//	@FILE                                      replaced by the lines of FILE, anywhere, if the tool has that
//	form, rand                                 a command by a unique prefix
//
// into `command --name=value … -- argument …`, and adds the values of environment variables.
// The option table is the application itself. Options and commands with a category are this
// project's own: they are never in the way when a prefix of one of Kafka's is resolved.
package cli

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"kstorage/internal/disk"
)

// Grammar is an application with what urfave/cli has no words for.
type Grammar struct {
	App *cli.App
	// EnvPrefix is put before an option's name to get the variable with its default value.
	EnvPrefix string
	// Exclusive has the groups of options of which one at most may be given, by their long names.
	Exclusive [][]string
	// EmptyCounts has the options whose variable counts although it is set to nothing.
	EmptyCounts []string
	// ArgumentsOnly has for each command the options that no variable stands in for, by their long names.
	ArgumentsOnly map[string][]string
	// ArgumentFiles says that an argument @FILE stands for the lines of FILE.
	ArgumentFiles bool
}

// Args are arguments in canonical form.
type Args struct {
	Argv []string
	// Help is set if the help text was asked for: of Command, or of the application if that is empty.
	Help    bool
	Command string
	// JSON is set if --json is among the options, or its variable is on; also where an error follows.
	JSON bool
	// FromEnv maps the long names of the options that no argument gave to the variable that did.
	FromEnv map[string]string
}

// UsageError is a mistake in the arguments.
type UsageError struct {
	Command string // the command it was made in, empty before one is known
	Reason  string
	Hint    string // the way out, if one is likely
	// Unrecognized is the name of the option that is none of Command, with its dashes, if that is the mistake.
	Unrecognized string
}

func (e *UsageError) Error() string { return e.Reason }

const (
	optionJSON       = "json"      // asks for JSON, in all commands
	optionCredential = "add-scram" // the one whose values are secret
)

// Canonical rewrites argv, the arguments behind the program's name. Errors are *UsageError.
func (g *Grammar) Canonical(argv []string, env func(string) (string, bool)) (Args, error) {
	p := parser{grammar: g, out: Args{FromEnv: map[string]string{}}}
	value, _ := env(g.variable(optionJSON))
	p.out.JSON, _ = strconv.ParseBool(value)
	p.secret = slices.ContainsFunc(argv, mayHoldSecret)
	p.args = argv
	if g.ArgumentFiles {
		var err error
		if p.args, err = p.expandFiles(argv, nil); err != nil {
			p.out.JSON = p.out.JSON || slices.Contains(argv, "--"+optionJSON)
			return p.out, err
		}
	}
	if err := p.application(env); err != nil {
		err.Command = p.out.Command
		// Behind a mistake nothing is parsed, but the wish still counts.
		p.out.JSON = p.out.JSON || slices.Contains(p.args, "--"+optionJSON)
		return p.out, err
	}
	return p.out, nil
}

// expandFiles replaces each argument @FILE by the lines of FILE, in which @FILE counts too.
// open lists the files being read, so that one that includes itself ends.
func (p *parser) expandFiles(argv, open []string) ([]string, error) {
	var out []string
	for _, arg := range argv {
		name, ok := strings.CutPrefix(arg, "@")
		if !ok || name == "" {
			out = append(out, arg)
			continue
		}
		if slices.Contains(open, name) {
			return nil, &UsageError{Reason: "the file of an argument that begins with @ includes itself"}
		}
		b, err := readBounded(name)
		if err != nil {
			return nil, &UsageError{Reason: fmt.Sprintf("cannot read the file %s, named by an argument that begins with @: %s", p.shown(name), disk.Reason(err)),
				Hint: "a value that begins with @ is written behind an equals sign: --option=@value"}
		}
		if len(b) == 0 {
			continue
		}
		text := strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(b))
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		p.secret = p.secret || slices.ContainsFunc(lines, mayHoldSecret)
		expanded, err := p.expandFiles(lines, append(open, name))
		if err != nil {
			return nil, err
		}
		out = append(out, expanded...)
	}
	return out, nil
}

// maxFileBytes is far more than the arguments of a command can have.
const maxFileBytes = 1 << 20

func readBounded(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFileBytes+1))
	if err == nil && len(b) > maxFileBytes {
		err = fmt.Errorf("it has more than %d bytes", maxFileBytes)
	}
	return b, err
}

// option is a row of the table: an option as it is written.
type option struct {
	long, short string
	switchOnly  bool // takes no value
	list        bool // may be given several times; of any other the last value counts
	required    bool
	own         bool
	variable    string // the environment variable with its default, empty if there is none
}

// name is how messages call the option: --config/-c.
func (o *option) name() string {
	if o.short == "" {
		return "--" + o.long
	}
	return "--" + o.long + "/-" + o.short
}

// options is the table of a command's options, or of the application's own if command is empty.
func (g *Grammar) options(command string, flags []cli.Flag) []option {
	var out []option
	for _, f := range flags {
		o := option{long: f.Names()[0]}
		if !slices.Contains(g.ArgumentsOnly[command], o.long) {
			o.variable = g.variable(o.long)
		}
		for _, alias := range f.Names()[1:] {
			if len(alias) == 1 {
				o.short = alias
			}
		}
		if c, ok := f.(cli.CategorizableFlag); ok {
			o.own = c.GetCategory() != ""
		}
		if r, ok := f.(cli.RequiredFlag); ok {
			o.required = r.IsRequired()
		}
		switch f.(type) {
		case *cli.BoolFlag:
			o.switchOnly = true
		case *cli.StringSliceFlag:
			o.list = true
		}
		out = append(out, o)
	}
	return out
}

// parser walks over the arguments: the application's options, a command, the command's options.
type parser struct {
	grammar *Grammar
	args    []string
	secret  bool // a credential is among the arguments
	out     Args
}

func (p *parser) application(env func(string) (string, bool)) *UsageError {
	if err := p.options(p.grammar.options("", p.grammar.App.Flags), false, env); err != nil || p.out.Help {
		return err
	}
	if len(p.args) > 1 && p.args[0] == separator {
		return p.leftOver(p.args[1:])
	}
	if len(p.args) == 0 || p.args[0] == separator {
		return &UsageError{Reason: "no command given; the commands are " + p.grammar.commandNames()}
	}
	command, err := p.command(p.args[0])
	if err != nil {
		return err
	}
	p.out.Command = command.Name
	p.out.Argv = append(p.out.Argv, command.Name)
	p.args = p.args[1:]
	if err := p.options(p.grammar.options(command.Name, command.Flags), command.Args, env); err != nil || p.out.Help {
		return err
	}
	p.out.Argv = append(append(p.out.Argv, separator), p.args...)
	return nil
}

const separator = "--"

func (p *parser) leftOver(args []string) *UsageError {
	shown := make([]string, len(args))
	for i, a := range args {
		shown[i] = p.shown(a)
	}
	return &UsageError{Reason: "unrecognized arguments: " + strings.Join(shown, " ")}
}

// credential matches what nothing but a SCRAM credential looks like.
var credential = regexp.MustCompile(`(?i)^\s*scram-sha-|password=`)

// mayHoldSecret reports whether a word looks like a SCRAM credential or a part of one.
func mayHoldSecret(word string) bool {
	word = strings.ToLower(word)
	return strings.Contains(word, "scram") || strings.Contains(word, "password")
}

// shown is how a message quotes a word of the arguments. Where a credential is among them, each word may be a piece of it
// that the shell has cut off.
func (p *parser) shown(word string) string {
	if p.secret || mayHoldSecret(word) {
		return "(hidden)"
	}
	return strconv.Quote(word)
}

func (g *Grammar) commandNames() string {
	var names []string
	for _, c := range g.App.Commands {
		names = append(names, c.Name)
	}
	return strings.Join(names, ", ")
}

// command finds a command by its name or by a prefix of it that only one of Kafka's, or else
// only one of ours, begins with.
func (p *parser) command(word string) (*cli.Command, *UsageError) {
	var kafka, own []*cli.Command
	for _, c := range p.grammar.App.Commands {
		switch {
		case c.Name == word:
			return c, nil
		case word == "" || !strings.HasPrefix(c.Name, word):
		case c.Category == "":
			kafka = append(kafka, c)
		default:
			own = append(own, c)
		}
	}
	found := kafka
	if len(kafka) == 0 {
		found = own
	}
	if len(found) == 1 {
		return found[0], nil
	}
	if len(found) > 1 {
		var names []string
		for _, c := range found {
			names = append(names, c.Name)
		}
		return nil, &UsageError{Reason: fmt.Sprintf("the command %s could be %s", p.shown(word), strings.Join(names, " or "))}
	}
	return nil, &UsageError{Reason: fmt.Sprintf("there is no command %s; the commands are %s", p.shown(word), p.grammar.commandNames())}
}

// options parses the options of the application, up to its command, or of a command, and adds
// those of the environment. It leaves in p.args what is no option: of a command that takes
// arguments these, between which options may stand, and of any other nothing.
func (p *parser) options(table []option, takesArgs bool, env func(string) (string, bool)) *UsageError {
	seen := map[string]bool{}
	var arguments []string
	for len(p.args) > 0 {
		word := p.args[0]
		if word == separator && p.out.Command != "" {
			arguments, p.args = append(arguments, p.args[1:]...), nil
			break
		}
		if word == separator || !looksLikeOption(word) {
			if !takesArgs {
				break
			}
			arguments, p.args = append(arguments, word), p.args[1:]
			continue
		}
		p.args = p.args[1:]
		parse := p.short
		if strings.HasPrefix(word, "--") {
			parse = p.long
		}
		if err := parse(table, seen, word); err != nil || p.out.Help {
			return err
		}
	}
	p.args = append(arguments, p.args...)
	leftOver := p.out.Command != "" && !takesArgs && len(p.args) > 0
	if !leftOver {
		if err := p.environment(table, seen, env); err != nil {
			return err
		}
	}
	var missing []string
	for i := range table {
		if o := &table[i]; o.required && !seen[o.long] {
			text := o.name()
			if o.variable != "" {
				text += " (or " + o.variable + ")"
			}
			missing = append(missing, text)
		}
	}
	required := ""
	switch len(missing) {
	case 0:
	case 1:
		required = "the option " + missing[0] + " is required"
	default:
		required = "the options " + strings.Join(missing, " and ") + " are required"
	}
	if leftOver {
		e := p.leftOver(p.args)
		e.Hint = required // a file name without its option, perhaps
		return e
	}
	if required != "" {
		return &UsageError{Reason: required}
	}
	return nil
}

func (p *parser) long(table []option, seen map[string]bool, word string) *UsageError {
	name, value, hasValue := strings.Cut(strings.TrimPrefix(word, "--"), "=")
	o, err := p.lookup(table, name, word)
	if err != nil {
		return err
	}
	return p.take(o, seen, value, hasValue)
}

// lookup finds the option by its name, or by a prefix that only one of Kafka's, or else only
// one of ours, begins with.
func (p *parser) lookup(table []option, name, word string) (*option, *UsageError) {
	if name == "help" {
		return &help, nil
	}
	var kafka, own []*option
	for i := range table {
		o := &table[i]
		switch {
		case o.long == name:
			return o, nil
		case !strings.HasPrefix(o.long, name):
		case o.own:
			own = append(own, o)
		default:
			kafka = append(kafka, o)
		}
	}
	if strings.HasPrefix(help.long, name) {
		kafka = append(kafka, &help)
	}
	found := kafka
	if len(kafka) == 0 {
		found = own
	}
	switch len(found) {
	case 0:
		e := p.unrecognized(word)
		if near := nearest(table, name); near != "" && e.Hint == "" {
			e.Hint = "the option with the nearest name is " + near
		}
		return nil, e
	case 1:
		return found[0], nil
	}
	var names []string
	for _, o := range found {
		names = append(names, "--"+o.long)
	}
	return nil, &UsageError{Reason: fmt.Sprintf("the option --%s could be %s", name, strings.Join(names, " or "))}
}

// help is in every table.
var help = option{long: "help", short: "h", switchOnly: true}

func (p *parser) unrecognized(word string) *UsageError {
	name, _, _ := strings.Cut(word, "=")
	e := &UsageError{Reason: "unrecognized arguments: " + p.shown(word), Unrecognized: name}
	if word == "--version" {
		e.Hint = "the command version prints it"
	}
	return e
}

// nearest is the option whose name is most like name.
func nearest(table []option, name string) string {
	flags := make([]cli.Flag, len(table))
	for i, o := range table {
		flags[i] = &cli.BoolFlag{Name: o.long}
	}
	return cli.SuggestFlag(flags, name, true)
}

// short parses a word of short options: each but the last takes no value; the last may have
// its value behind it or behind an equals sign, which is dropped only where the word has one option.
func (p *parser) short(table []option, seen map[string]bool, word string) *UsageError {
	find := func(letter string) *option {
		if letter == help.short {
			return &help
		}
		for i := range table {
			if table[i].short == letter {
				return &table[i]
			}
		}
		return nil
	}
	letters := word[1:]
	if name, value, ok := strings.Cut(letters, "="); ok && name != "" {
		if o := find(name); o != nil {
			return p.take(o, seen, value, true)
		}
	}
	for i, r := range letters {
		o := find(string(r))
		if o == nil {
			return p.unrecognized(word)
		}
		if rest := letters[i+len(string(r)):]; !o.switchOnly && rest != "" {
			return p.take(o, seen, rest, true)
		}
		if err := p.take(o, seen, "", false); err != nil || p.out.Help {
			return err
		}
	}
	return nil
}

// take records an option; a value that is not attached is the next argument.
func (p *parser) take(o *option, seen map[string]bool, value string, hasValue bool) *UsageError {
	if o.switchOnly && hasValue {
		return &UsageError{Reason: fmt.Sprintf("the option %s takes no value, but %s was given", o.name(), p.shown(value))}
	}
	if o == &help {
		p.out.Help = true
		return nil
	}
	for _, group := range p.grammar.Exclusive {
		if !slices.Contains(group, o.long) {
			continue
		}
		for _, other := range group {
			if other != o.long && seen[other] {
				return &UsageError{Reason: fmt.Sprintf("the option %s is not allowed with --%s", o.name(), other)}
			}
		}
	}
	if !o.switchOnly && !hasValue {
		if len(p.args) == 0 || !isValue(o, p.args[0]) {
			return p.noValue(o)
		}
		value, p.args = p.args[0], p.args[1:]
	}
	return p.add(o, seen, value)
}

func (p *parser) noValue(o *option) *UsageError {
	e := &UsageError{Reason: fmt.Sprintf("the option %s needs a value", o.name()), Hint: "a shell variable that is not set leaves nothing behind"}
	if len(p.args) > 0 {
		e.Reason += fmt.Sprintf(", but %s follows it", p.shown(p.args[0]))
		e.Hint = fmt.Sprintf("a value that begins with a dash is written --%s=VALUE; %s", o.long, e.Hint)
	}
	return e
}

// add records an option with its value. A credential that was meant for another option is refused before anything repeats it.
func (p *parser) add(o *option, seen map[string]bool, value string) *UsageError {
	if o.long != optionCredential && credential.MatchString(value) {
		return &UsageError{Reason: fmt.Sprintf("the value of the option %s looks like a credential, which belongs to --%s", o.name(), optionCredential)}
	}
	p.out.JSON = p.out.JSON || o.long == optionJSON
	prefix := "--" + o.long
	if o.switchOnly {
		if !seen[o.long] {
			p.out.Argv = append(p.out.Argv, prefix)
		}
	} else {
		if seen[o.long] && !o.list {
			p.out.Argv = slices.DeleteFunc(p.out.Argv, func(a string) bool { return strings.HasPrefix(a, prefix+"=") })
		}
		p.out.Argv = append(p.out.Argv, prefix+"="+value)
	}
	seen[o.long] = true
	return nil
}

var (
	integer  = regexp.MustCompile(`^-[0-9]+$`)
	uuidText = regexp.MustCompile(`^-[A-Za-z0-9_-]{21}$`)
)

// looksLikeOption tells options from arguments as Kafka's tools do: a lone dash and a negative
// number are arguments.
func looksLikeOption(word string) bool {
	return len(word) > 1 && word[0] == '-' && !integer.MatchString(word)
}

// isValue says whether word can be the value of o.
// Unlike Kafka: a cluster id may begin with a dash in a word of its own, since a word of 22
// such characters can be no option; one id in 64 begins so.
func isValue(o *option, word string) bool {
	return !looksLikeOption(word) || o.long == "cluster-id" && uuidText.MatchString(word)
}

// variable is the environment variable that holds the default of an option.
func (g *Grammar) variable(long string) string {
	return g.EnvPrefix + strings.ToUpper(strings.ReplaceAll(long, "-", "_"))
}

// environment gives each option that no argument gave the value of its variable. An option of
// an exclusive group switches the variables of the group off. A list has one value a line.
func (p *parser) environment(table []option, seen map[string]bool, env func(string) (string, bool)) *UsageError {
	given := map[string]bool{}
	for name := range seen {
		given[name] = true
		for _, group := range p.grammar.Exclusive {
			if slices.Contains(group, name) {
				for _, other := range group {
					given[other] = true
				}
			}
		}
	}
	for i := range table {
		o := &table[i]
		name := o.variable
		if name == "" {
			continue
		}
		value, set := env(name)
		if given[o.long] || !set || value == "" && !slices.Contains(p.grammar.EmptyCounts, o.long) {
			continue
		}
		if o.switchOnly {
			on, err := strconv.ParseBool(value)
			if err != nil {
				return &UsageError{Reason: fmt.Sprintf("the variable %s is %s, expected true or false", name, p.shown(value))}
			}
			if !on {
				continue
			}
		}
		for _, group := range p.grammar.Exclusive {
			for _, other := range group {
				if slices.Contains(group, o.long) && other != o.long && p.out.FromEnv[other] != "" {
					return &UsageError{Reason: fmt.Sprintf("the variables %s and %s exclude each other", p.out.FromEnv[other], name),
						Hint: "unset one of them"}
				}
			}
		}
		p.out.FromEnv[o.long] = name
		values := []string{value}
		if o.list {
			values = slices.DeleteFunc(strings.Split(value, "\n"), func(line string) bool { return line == "" })
		}
		for _, v := range values {
			if err := p.add(o, seen, v); err != nil {
				return err
			}
		}
	}
	return nil
}
