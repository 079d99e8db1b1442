// Files that the bundler turns into text.
declare module "*.svg" {
  const text: string;
  export default text;
}
