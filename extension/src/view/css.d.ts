// esbuild's text loader turns a style sheet into a string.
declare module "*.css" {
  const text: string;
  export default text;
}
